"""The ``tidemill`` command in this process, in one of its own, or several commands in one process."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

TESTS = Path(__file__).parent
_SECONDS = 240


@dataclass
class Finished:
    """What a command left behind."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        """Standard output as text."""
        return self.raw.decode("utf-8", "replace")


def tidemill(*arguments: str, environment: dict[str, str] | None = None) -> Finished:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "tidemill", *arguments]
    done = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=_SECONDS)
    return Finished(done.returncode, done.stdout, done.stderr.decode())


def here(*arguments: str) -> Finished:
    """The command in this process: its output, and the exit code it would have."""
    from tidemill.__main__ import command_of

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code: object = 0
    with mock.patch.object(sys, "argv", ["tidemill", *arguments]), redirect_stdout(out), redirect_stderr(err):
        try:
            command_of(list(arguments))()
        except SystemExit as exit_:
            code = exit_.code or 0
    assert isinstance(code, int)
    streams = [s.buffer.getvalue() for s in (out, err)]  # type: ignore[attr-defined]
    return Finished(code, streams[0], streams[1].decode())


def elsewhere(*commands: Sequence[str], prefix: Sequence[str] = ()) -> list[Finished]:
    """Commands one after the other in one other process; ``prefix`` is what starts it."""
    command = [*prefix, sys.executable, str(TESTS / "commands.py")]
    done = subprocess.run(command, input=json.dumps(commands), capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 0, done.stderr
    return [Finished(code, out.encode(), err) for code, out, err in json.loads(done.stdout)]


if __name__ == "__main__":
    results = [here(*arguments) for arguments in json.load(sys.stdin)]
    json.dump([(r.code, r.out, r.err) for r in results], sys.stdout)
