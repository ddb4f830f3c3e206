"""The tutorial: each of its files is written, each of its commands runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
PORTS = ("5501", "8320")
"""What the page uses; the test takes free ones."""

_BLOCK = re.compile(r"^(?:`([\w.]+)`:\n\n)?```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass
class Step:
    """A command, and what it prints: `…` stands for whatever is not the same every time."""

    command: str
    prints: list[str]


def steps(text: str) -> Iterator[Step | tuple[str, str]]:
    """The commands and the files, in their order."""
    for name, language, block in _BLOCK.findall(text):
        if name:
            yield name, block
        elif language == "sh":
            found: list[Step] = []
            for line in block.splitlines():
                if line.startswith("$ "):
                    found.append(Step(line[2:], []))
                else:
                    found[-1].prints.append(line)
            yield from found


def free_ports(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [str(each.getsockname()[1]) for each in sockets]


def check(step: Step, said: str) -> None:
    lines = [line.rstrip() for line in said.splitlines()]
    assert len(lines) == len(step.prints), f"{step.command} printed\n{said}"
    for line, pattern in zip(lines, step.prints):
        expected = ".*".join(re.escape(part) for part in pattern.rstrip().split("…"))
        assert re.fullmatch(expected, line), f"{step.command} printed {line!r}, not {pattern!r}"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_tutorial(tmp_path: Path) -> None:
    text = PAGE.read_text()
    for port, free in zip(PORTS, free_ports(len(PORTS))):
        assert port in text
        text = text.replace(port, free)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}
    background: list[subprocess.Popen[str]] = []
    count = 0
    try:
        for step in steps(text):
            if isinstance(step, tuple):
                (tmp_path / step[0]).write_text(step[1])
                continue
            count += 1
            if step.command.endswith(" &"):
                command = ["bash", "-c", f"exec {step.command[:-2]}"]
                pipe = subprocess.PIPE
                process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, text=True)
                background.append(process)
                assert process.stdout is not None
                said = "".join(process.stdout.readline() for _ in step.prints)
            else:
                ran = subprocess.run(
                    ["bash", "-c", step.command],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                assert ran.returncode == 0, f"{step.command}: {ran.stderr}"
                said = ran.stdout
            check(step, said)
    finally:
        for process in background:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(60) for process in background]
        for process in background:
            assert process.stdout is not None
            process.stdout.close()
    assert count > 8 and codes == [0] * len(codes)
