"""What a person sees of warnings while a mill runs."""

from __future__ import annotations

import datetime
import json

import pytest

from tidemill.progress_display import Display

DAY = datetime.timedelta(days=1)
LONG = "TM1014: a checkpoint could not be written\n  got: [bold]/disk/root[/bold]: " + "x" * 200


def test_warnings_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(log=False)
    display.warn(())
    display.warn([LONG, "TM1021: two"])
    assert capsys.readouterr().err == f"warning: {LONG}\nwarning: TM1021: two\n"


def test_with_log_they_are_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(log=True)
    display.warn([LONG])
    lines = capsys.readouterr().err.splitlines()
    (said,) = [json.loads(line) for line in lines]
    assert abs(datetime.datetime.fromisoformat(said.pop("time")) - datetime.datetime.now(datetime.UTC)) < DAY
    assert said == {"warnings": [LONG]}
    display.warn([])
    assert capsys.readouterr().err == ""
