"""Comparing what the server says with DuckDB: at any epoch, and when everything that was sent has been admitted."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import httpx
import psycopg
import pyarrow.flight as flight

from benchmarks.soak.error import SoakError
from benchmarks.soak.model import Rows, check_rows, rows_of
from benchmarks.soak.world import PATIENCE, World
from tidemill.errors import TidemillError

_NOT_NOW = ("TM1030", "TM1039", "TM1041")


def audit(world: World) -> None:
    """Views at the newest epoch, whatever that has admitted: their queries over the copies of tables as of it."""
    status = {v["name"]: v["status"] for v in world.client.status()["views"]}
    model = world.model
    copies = [f"copy_{t}" for t in world.feeds if status.get(f"copy_{t}") == "fresh"]
    known = {name.removeprefix("copy_") for name in copies}
    views = [
        name
        for name in world.queries()
        if status.get(name) == "fresh"
        and name not in world.unsettled
        and model.tables_below(name) <= known
        and not _has_tail(world, name)
    ]
    if not views:
        return
    try:
        epoch, found = world.client.tables([*copies, *views])
    except TidemillError as error:
        if error.number in _NOT_NOW:
            return  # a limit was reached meanwhile
        raise
    tables = {name.removeprefix("copy_"): found[name] for name in copies}
    for name in views:
        what = f"view {name} at epoch {epoch}: {model.views[name].sql()}"
        check_rows(what, rows_of(found[name]), model.expected(name, tables))
    world.note(f"audit of {len(views)} views at epoch {epoch}")
    world.counts["views compared"] += len(views)


def _has_tail(world: World, name: str) -> bool:
    view = world.model.views.get(name)
    return view is not None and (view.begins is not None or any(_has_tail(world, read) for read in view.reads))


def checkpoint(world: World) -> None:
    """Resume everything, wait until all that was sent is in the views, and compare all of them and their followers."""
    began = time.monotonic()
    for name in world.feeds:
        world.settle(name)
    _resume_views(world)
    _wait_until_fresh(world)
    names = list(world.model.views)
    epoch, found = world.client.tables(names)
    rows = {name: rows_of(found[name]) for name in names}
    for name in names:
        check_rows(f"view {name}: {world.model.views[name].sql()}", rows[name], world.model.expected(name))
    world.counts["views compared"] += len(names)
    for name in world.chance.sample(names, min(3, len(names))):
        _compare_protocols(world, name, epoch, rows[name])
    _check_followers(world, epoch, rows)
    _check_cursors(world, epoch, rows)
    world.server.check_log()
    world.server.count_answers()
    world.counts["checkpoints"] += 1
    world.note(f"checkpoint: {len(names)} views equal at epoch {epoch}, {time.monotonic() - began:.1f} s")


def _resume_views(world: World) -> None:
    """Take limits back, and resume all views, those that others read first."""
    deadline = time.monotonic() + PATIENCE
    for name in sorted(world.unsettled & set(world.model.views)):
        if "maxTaskMemory" in world.model.views[name].properties:
            world.must(f"ALTER VIEW {name} UNSET TBLPROPERTIES ('maxTaskMemory')")
            del world.model.views[name].properties["maxTaskMemory"]
    while True:
        paused = [v["name"] for v in world.client.status()["views"] if v["status"] == "paused"]
        if not paused:
            return
        for name in paused:
            view = world.model.views[name]
            if world.execute(f"ALTER VIEW {name} RESUME") is None and view.begins is not None:
                view.begins = world.model.lines(view.reads[0])
        if time.monotonic() > deadline:
            raise SoakError(f"views stay paused: {paused}")


def _wait_until_fresh(world: World) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        others = {v["name"]: (v["status"], v["detail"]) for v in world.client.status()["views"]}
        others = {name: status for name, status in others.items() if status[0] != "fresh"}
        initialising = {q["view"] for q in world.client.queues() if q["state"] == "initialising"}
        if not others and not initialising:
            world.unsettled.clear()
            return
        if time.monotonic() > deadline or any(status[0] == "failed" for status in others.values()):
            raise SoakError(f"views are not fresh: {others}, initialising: {initialising}")
        time.sleep(0.05)


def _compare_protocols(world: World, name: str, epoch: int, expected: Rows) -> None:
    """The view as JSON, over Flight, by PostgreSQL's protocol, and by Spark."""
    answer = httpx.get(f"{world.server.url}/v1/views/{name}", timeout=PATIENCE).json()
    check_rows(f"JSON of {name}", Counter(map(tuple, answer["rows"])), expected)
    with flight.FlightClient(world.server.flight) as client:
        ticket = flight.Ticket(json.dumps({"view": name, "epoch": epoch}).encode())
        check_rows(f"Flight of {name}", rows_of(client.do_get(ticket).read_all()), expected)
    with psycopg.connect(world.server.postgres, autocommit=True, connect_timeout=30) as connection:
        binary = world.chance.random() < 0.5
        found = connection.cursor(binary=binary).execute(f"SELECT * FROM {name}").fetchall()
    check_rows(f"PostgreSQL's protocol of {name}", Counter(found), expected)
    table = world.client.sql(f"SELECT COUNT(*) AS n, SUM({'c' if name.startswith('copy_') else 'a'}) AS a FROM {name}")
    total = [value for row, count in expected.items() for value in [row[0]] * count if value is not None]
    assert not isinstance(table, str) and table is not None
    spark: list[dict[str, Any]] = table.to_pylist()
    if (spark[0]["n"], spark[0]["a"] or 0) != (expected.total(), sum(total)):
        raise SoakError(f"Spark over {name}: {spark}, expected {expected.total()}, {sum(total)}")


def _check_followers(world: World, epoch: int, rows: dict[str, Rows]) -> None:
    for follower in list(world.followers):
        if follower.view not in rows:
            follower.wait_until_gone(PATIENCE)
            world.followers.remove(follower)
            world.counts["followers whose view was dropped"] += 1
            continue
        sums = follower.at(epoch, PATIENCE)
        if sums is None:
            raise SoakError(f"{follower} was ended with {follower.gone}, and the view is there")
        check_rows(
            f"{follower}, {follower.connections} connections, {follower.resets} resets", sums, rows[follower.view]
        )
        world.counts["followers compared"] += 1


def _check_cursors(world: World, epoch: int, rows: dict[str, Rows]) -> None:
    for cursor in list(world.cursors):
        if cursor.view not in rows:
            continue
        deadline = time.monotonic() + PATIENCE
        try:
            while not (cursor.up_to_date and cursor.epoch >= epoch):
                cursor.fetch(world.client, world.chance.choice((7, 100, 5_000)), world.chance.random() < 0.1)
                if cursor.up_to_date and cursor.epoch < epoch:
                    time.sleep(0.1)
                if time.monotonic() > deadline:
                    raise SoakError(f"cursor of {cursor.view}: epoch {cursor.epoch}, not {epoch}")
        except TidemillError as error:
            if error.number != "TM8010":
                raise SoakError(f"cursor of {cursor.view} at {cursor.position}: {error.message()}") from error
            world.cursors.remove(cursor)
            world.counts["cursors behind what is retained"] += 1
            continue
        check_rows(f"cursor of {cursor.view}, {cursor.fetches} fetches", cursor.sums, rows[cursor.view])
        world.counts["cursors compared"] += 1


def no_client_is_left(world: World) -> None:
    """Wait until the server has noticed that all followers have gone. SoakError when it does not."""
    deadline = time.monotonic() + PATIENCE
    while world.server.metric("tidemill_subscribers") > 0:
        if time.monotonic() > deadline:
            raise SoakError(f"{world.server.metric('tidemill_subscribers')} subscribers are left")
        time.sleep(0.2)
