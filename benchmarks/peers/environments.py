"""Peers that are not in the project's environment have one each below ``var/peers``, made when it is first used."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGES = {"pathway": "pathway==0.33.0", "bytewax": "bytewax==0.21.1", "flink": "apache-flink==2.3.0"}
"""What a peer's environment has, with what it needs; versions are those that the sides were written for."""


class NotInstalledError(Exception):
    """Why there is no environment."""


def python(peer: str, directory: Path = REPOSITORY / "var" / "peers") -> str:
    """The interpreter that runs a side; installs the peer's package if it has an environment of its own.

    Raises
    ------
    NotInstalledError
        With the first line of the installer's error.
    """
    if peer not in PACKAGES:
        return sys.executable
    home = directory / peer
    interpreter, installed = home / "bin" / "python", home / ".installed"
    if not installed.exists() or installed.read_text() != PACKAGES[peer]:
        shutil.rmtree(home, ignore_errors=True)
        print(f"installing {PACKAGES[peer]} into {home}", flush=True)
        _succeed([sys.executable, "-m", "venv", str(home)])
        _succeed([str(interpreter), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", PACKAGES[peer]])
        installed.write_text(PACKAGES[peer])
    return str(interpreter)


def _succeed(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotInstalledError(str(error)) from error
    if done.returncode:
        raise NotInstalledError(first_error(done.stderr + done.stdout))


def first_error(text: str) -> str:
    """The first line that says ERROR or Error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() and "warning" not in line.lower()]
    return (errors or lines[-1:] or ["it said nothing"])[0][:200]
