"""``python -m tidemill`` is the command ``tidemill``."""

from tidemill.cli import main

main()
