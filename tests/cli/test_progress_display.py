"""What a person sees of warnings while a mill runs."""

from __future__ import annotations

import datetime
import json
import logging
import time

import pytest

from tidemill.cli.run.progress_display import Display
from tidemill.runtime.epoch.report import EpochReport

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


@pytest.mark.parametrize("log", [False, True])
def test_how_far_it_is(capsys: pytest.CaptureFixture[str], log: bool) -> None:
    """Said now and then while there is something to do, and not while there is not."""
    display = Display(log=log, every=0.01)
    said = ""

    def hear(words: str) -> None:
        nonlocal said
        while words not in said:
            said += capsys.readouterr().err
            time.sleep(0.001)

    with display.reporting():
        logging.getLogger("tidemill").info("starting Spark")
        hear("starting Spark; the first run")
        display.working("creating tables and views")
        hear(" s: creating tables and views\n")
        display.begin(3_000_000)
        display.working("reading")
        display.add(EpochReport(7, 1000, 1, 1_500_000, 1, 1, 0, 0, 0, {"total": 5.0}))
        hear(" s: reading; epoch 7 is sealed: 1,000 rows, 1.5 of 3.0 MB\n")
        display.working("")
    capsys.readouterr()
    for line in said.splitlines():
        if log and line.startswith("{"):
            assert json.loads(line)["epoch"] == 7
        elif log:
            datetime.datetime.fromisoformat(line.split()[0])
    assert "Z {" not in said
