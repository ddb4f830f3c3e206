"""The comparison of ``benchmarks peers``: answers that differ have no ratio, whatever a side says of its time."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from datetime import datetime
from pathlib import Path

import pytest
from benchmarks.peers import environments
from benchmarks.peers.comparison import Outcome, command, measure, report, run_job
from benchmarks.peers.data import write
from benchmarks.peers.jobs import JOBS

ANSWER = [[1, 2, 3]]
SIDE = """
import json, sys, time
from pathlib import Path
source, work, files, rows = sys.argv[2:]
print("side: " + json.dumps({"ready": time.time()}), flush=True)
(Path(work) / "answer.json").write_text("[[1, 2, 4]]")
print("side: " + json.dumps({"answered": time.time(), "version": "9"}), flush=True)
"""


def _rounds(*answers: list[list[int]]) -> list[Outcome]:
    return [Outcome(rows, "1", answer=2.0, process=3.0) for rows in answers]


def test_a_side_with_another_answer_in_any_round_has_no_ratio() -> None:
    outcomes = {
        "tidemill": [Outcome(ANSWER, "1", answer=1.0, process=9.0)],
        "flink": _rounds(ANSWER, ANSWER),
        "pathway": _rounds(ANSWER, [[1, 2, 4]]),
        "bytewax": [Outcome(error="not installed: ERROR: none")],
        "duckdb": _rounds(ANSWER),
    }
    assert [row[2:] for row in report("groups", outcomes)] == [
        (1.0, 9.0, "-"),
        (2.0, 3.0, 2.0),
        (2.0, 3.0, "answers differ"),
        ("-", "-", "not installed: ERROR: none"),
        (2.0, 3.0, 2.0),
    ]


@pytest.mark.parametrize(
    ("own", "oracle", "shown"),
    [
        (_rounds([[1, 2, 4]]), _rounds(ANSWER), ["answers differ", "-", "-"]),
        ([Outcome(error="no answer within 300 s")], _rounds(ANSWER), ["no answer within 300 s", "-", "-"]),
        ([], _rounds(ANSWER), ["not measured", "-", "-"]),
        (_rounds(ANSWER), [Outcome(error="it failed")], ["nothing to compare with"] * 2 + ["it failed"]),
    ],
)
def test_without_an_answer_of_tidemill_that_is_right_there_is_no_ratio(
    own: list[Outcome], oracle: list[Outcome], shown: list[str]
) -> None:
    rows = report("groups", {"tidemill": own, "flink": _rounds(ANSWER), "duckdb": oracle})
    assert [row[4] for row in rows] == shown


def test_a_process_that_answers_otherwise_has_no_ratio(tmp_path: Path) -> None:
    rows = write(tmp_path / "in", 500)
    oracle = run_job(JOBS["groups"], command("duckdb"), tmp_path / "in", tmp_path / "duckdb", rows["groups"], 0.0)
    other = run_job(JOBS["groups"], [sys.executable, "-c", SIDE], tmp_path / "in", tmp_path / "x", 1, 0.0)
    assert other.rows == [[1, 2, 4]]
    shown = report("groups", {"tidemill": [oracle], "fake": [other], "duckdb": [oracle]})
    assert [row[4] for row in shown] == ["-", "answers differ", 1.0]


def test_a_process_that_ends_or_waits_has_no_answer(tmp_path: Path) -> None:
    write(tmp_path / "in", 500)
    places = (JOBS["windows"], [sys.executable, "-c", "raise ValueError('none')"], tmp_path / "in", tmp_path / "ends")
    assert run_job(*places, 500, 0.0).error == "ValueError: none"
    waits = [sys.executable, "-c", "import time; time.sleep(60)"]
    found = run_job(JOBS["windows"], waits, tmp_path / "in", tmp_path / "waits", 500, 0.0, most=0.5)
    assert found == Outcome(error="no answer within 0.5 s")


def test_the_answers_of_the_oracle_are_those_of_dictionaries(tmp_path: Path) -> None:
    rows = write(tmp_path / "in", 2000)
    found = measure(["duckdb"], list(JOBS), tmp_path / "in", tmp_path / "work", rows, 1, 0.01)
    assert {job: sides["duckdb"][0].rows for job, sides in found.items()} == {
        "groups": _groups(tmp_path / "in/groups"),
        "top": _top(tmp_path / "in/top"),
        "windows": _windows(tmp_path / "in/windows"),
    }
    assert rows == {"groups": 2000, "top": 22_000, "windows": 2000}


def _lines(directory: Path) -> list[str]:
    return [line for file in sorted(directory.iterdir()) for line in file.read_text().splitlines()]


def _groups(source: Path) -> list[list[int]]:
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for line in _lines(source / "t"):
        if line != "k,v,p":
            k, v, p = map(int, line.split(","))
            sums[k] = [sums[k][0] + 1, sums[k][1] + v * p]
    return [[k, *sums[k]] for k in sorted(sums)]


def _top(source: Path) -> list[list[object]]:
    regions = {one["customer"]: one["region"] for one in map(json.loads, _lines(source / "customers"))}
    totals: dict[int, int] = defaultdict(int)
    for order in map(json.loads, _lines(source / "orders")):
        totals[order["customer"]] += order["amount"]
    first: dict[str, list[list[object]]] = defaultdict(list)
    for customer in sorted(totals, key=lambda c: (-totals[c], c)):
        if len(first[regions[customer]]) < 10:
            first[regions[customer]].append([regions[customer], customer, totals[customer]])
    return sorted(row for rows in first.values() for row in rows)


def _windows(source: Path) -> list[list[int]]:
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in map(json.loads, _lines(source / "t")):
        second = int(datetime.fromisoformat(f"{row['ts']}+00:00").timestamp())
        kept = sums[row["k"], second - second % 60]
        sums[row["k"], second - second % 60] = [kept[0] + 1, kept[1] + row["v"]]
    return [[*key, *sums[key]] for key in sorted(sums)]


def test_a_package_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(environments.NotInstalledError, match="Not a directory"):
        environments.python("flink", tmp_path / "file")
    assert environments.first_error("WARNING: old\nCollecting x\nERROR: No matching distribution\nmore") == (
        "ERROR: No matching distribution"
    )
