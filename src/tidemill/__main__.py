"""``python -m tidemill`` is the command ``tidemill``."""

from __future__ import annotations

import os
import signal
import sys

_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Entry point. SIGINT ends the command with status 130 and no traceback, also while its modules are imported."""
    chosen = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not what nohup and & ignore
    if chosen:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from tidemill.cli import commands

    try:
        if chosen:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        commands.main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
