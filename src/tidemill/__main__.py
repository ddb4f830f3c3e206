"""``python -m tidemill`` is the command ``tidemill``."""

from tidemill.cli.commands import main

main()
