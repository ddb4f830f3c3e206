"""A root as a killed process leaves it, used by another mill before it is served again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from serving import Events, Served, summed
from test_http import orders, rows_of, write

import tidemill as tm
from mill_factory import MillFactory

ServeFactory = Callable[..., Served]


def test_positions_beyond_what_was_durable_are_refused(
    serve: ServeFactory, mill_factory: MillFactory, tmp_path: Path
) -> None:
    served = serve(mill={"checkpoint_seconds": 1e6})
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 1.0, "I"))
    served.mill.advance()
    kept = served.mill.checkpoint()
    safe = served.http.post("/v1/cursors", json={"views": ["spending"]}).json()["cursor"]
    given = served.http.post(f"/v1/cursors/{safe}/fetch").json()["changes"]
    for number in (1, 2):
        write(data, f"{number}.csv", (number, 2.0, "I"))
        served.mill.advance()
    events = Events(served.http, "/v1/views/spending/changes?from=snapshot")
    seen = events.until(lambda found: any(e.data["epoch"] > kept for e in found))[-1].id
    shutil.copytree(tmp_path / "root", tmp_path / "killed")
    served.end()

    (data / "2.csv").unlink()
    other = mill_factory("killed")
    while other.epoch < kept + 4:  # other rows in epochs of the same numbers
        write(data, f"other{other.epoch}.csv", (7, 5.0, "I"))
        other.advance()
    other.close()

    again = serve("killed")
    refused = again.http.get("/v1/views/spending/changes", params={"from": seen})
    assert (refused.status_code, refused.json()["number"]) == (410, "TM1036")
    reset = Events(again.http, f"/v1/views/spending/changes?reset=true&from={seen}")
    first = reset.until(lambda found: any(e.kind == "message" for e in found))[0]
    assert (first.kind, first.data["number"]) == ("reset", "TM1036")  # what was given before does not count
    assert summed([e.data for e in reset.changes()]) == rows_of(again)
    with tm.connect(again.url) as client:
        changes = client.subscribe("spending", start=seen, reset=True)
        assert [next(changes).kind, next(changes).kind] == ["reset", "changes"]
    while True:
        found = again.http.post(f"/v1/cursors/{safe}/fetch").json()
        given += found["changes"]
        if found["up_to_date"]:
            break
    assert summed(given) == rows_of(again)


def test_positions_outlive_a_clean_end(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(mill={"checkpoint_seconds": 1e6})
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 1.0, "I"))
    served.mill.advance()
    events = Events(served.http, "/v1/views/spending/changes")
    seen = events.until(lambda found: any(e.kind == "message" for e in found))[-1]
    served.end()
    served.mill.close()
    again = serve()
    write(data, "1.csv", (2, 1.0, "I"))
    again.mill.advance()
    rest = Events(again.http, "/v1/views/spending/changes", headers={"Last-Event-ID": seen.id})
    rest.until(lambda found: any(e.kind == "message" for e in found))
    assert summed([seen.data, *(e.data for e in rest.changes())]) == rows_of(again)
