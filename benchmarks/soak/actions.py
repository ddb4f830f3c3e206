"""What clients do, each at random: rows, readers, queries, subscriptions and cursors."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pyarrow.flight as flight

from benchmarks.soak import disturbances
from benchmarks.soak.cursor_ledger import CursorLedger
from benchmarks.soak.error import SoakError
from benchmarks.soak.followers import FOLLOWERS
from benchmarks.soak.queries import random_view, tail_view
from benchmarks.soak.world import PATIENCE, World

MOST_TABLES, MOST_VIEWS, MOST_FOLLOWERS, MOST_CURSORS, MOST_SILENT = 5, 14, 6, 5, 3
MOST_ROWS = 20_000
"""Of a table: it is dropped then, and another one created, so that the state of a long run stays as large as it is."""


def push(world: World) -> None:
    """Rows for a table: mostly few."""
    name = world.chance.choice(list(world.feeds))
    if world.model.lines(name) > MOST_ROWS:
        world.drop_reader(name)
        world.create_reader()
        return
    count = world.chance.choice((1, 5, 20, 100, 400, 2_000))
    feed = world.feeds[name]
    world.model.add(name, feed.kind, feed.push(count))
    world.counts["rows"] += count
    world.note(f"{count} rows to {name}")


def add_reader(world: World) -> None:
    """A table more, or one fewer."""
    if len(world.feeds) < MOST_TABLES:
        world.create_reader()
    elif world.chance.random() < 0.3:
        world.drop_reader(world.chance.choice(list(world.feeds)))


def drop_read_table(world: World) -> None:
    """DROP of what is read: refused."""
    name = world.chance.choice(list(world.feeds))
    if world.execute(f"DROP TABLE {name}") is None:
        raise SoakError(f"table {name} was dropped, and views read it")


def add_query(world: World) -> None:
    """A view at the head or the tail; one fewer when there are many."""
    if len(world.queries()) >= MOST_VIEWS:
        drop_query(world)
        return
    name = world.new_name("v")
    if world.chance.random() < 0.2:
        table = world.chance.choice(list(world.feeds))
        world.settle(table)
        view = tail_view(world.chance, name, table, world.model.lines(table))
    else:
        view = random_view(world.chance, name, list(world.feeds), world.queries())
    if world.execute(view.statement()) is None:
        world.model.views[name] = view


def replace_query(world: World) -> None:
    """CREATE OR REPLACE of a view; its readers and followers go on with the new one."""
    if not (names := world.queries()):
        return
    name = world.chance.choice(names)
    others = [n for n in names if n != name and not _reads(world, n, name)]
    view = random_view(world.chance, name, list(world.feeds), others)
    if world.execute(view.statement(replace=True)) is None:
        world.model.views[name] = view
        world.unsettled |= {name, *(n for n in names if _reads(world, n, name))}


def _reads(world: World, name: str, other: str) -> bool:
    """Whether a view reads another one, also through others."""
    view = world.model.views.get(name)
    return view is not None and (other in view.reads or any(_reads(world, read, other) for read in view.reads))


def drop_query(world: World) -> None:
    """A view, and those that read it."""
    if names := world.queries():
        world.drop_view(world.chance.choice(names))


def pause_table(world: World) -> None:
    """Pause a table, or resume it."""
    name = world.chance.choice(list(world.feeds))
    if name in world.paused_tables:
        world.resume_table(name)
    else:
        world.must(f"ALTER TABLE {name} PAUSE")
        world.paused_tables.add(name)


def pause_view(world: World) -> None:
    """Pause a view, or resume it."""
    if not (names := [n for n in world.queries() if world.model.views[n].begins is None]):
        return
    name = world.chance.choice(names)
    world.execute(f"ALTER VIEW {name} {world.chance.choice(('PAUSE', 'RESUME'))}")
    world.unsettled |= {name, *(n for n in names if _reads(world, n, name))}


def limit_view(world: World) -> None:
    """A limit of memory that the view exceeds, or one of time that it does not."""
    names = [n for n in world.queries() if not any(_reads(world, m, n) for m in world.queries())]
    names = [n for n in names if world.model.views[n].begins is None]
    if not names:
        return
    name = world.chance.choice(names)
    key, value = world.chance.choice((("maxTaskMemory", "1k"), ("maxTaskTime", "60s")))
    if world.execute(f"ALTER VIEW {name} SET TBLPROPERTIES ('{key}' = '{value}')") is None:
        world.model.views[name].properties[key] = value
        world.unsettled.add(name)


def set_priority(world: World) -> None:
    """Priorities of tables and views."""
    number = world.chance.randrange(1, 6)
    if world.chance.random() < 0.5 or not world.queries():
        world.must(f"ALTER TABLE {world.chance.choice(list(world.feeds))} SET OPTIONS (priority '{number}')")
    else:
        world.must(f"ALTER VIEW {world.chance.choice(world.queries())} SET TBLPROPERTIES ('priority' = '{number}')")


def follow(world: World) -> None:
    """A subscription more over any protocol; when there are many one goes away without a goodbye."""
    if len(world.followers) >= MOST_FOLLOWERS:
        follower = world.followers.pop(world.chance.randrange(len(world.followers)))
        follower.check()
        follower.close()
        world.note(f"{follower} goes away")
        return
    view = world.chance.choice(list(world.model.views))
    follower = world.chance.choice(FOLLOWERS)(world.server, view, world.chance)
    world.followers.append(follower)
    world.note(f"{follower} begins")


def drop_connection(world: World) -> None:
    """A subscription loses its connection, and goes on behind it."""
    if world.followers:
        follower = world.chance.choice(world.followers)
        follower.lose_connection()
        world.note(f"{follower} loses its connection")


def open_cursor(world: World) -> None:
    """A cursor more; when there are many one is closed, or left open for ever."""
    if len(world.cursors) >= MOST_CURSORS:
        cursor = world.cursors.pop(0)
        if world.chance.random() < 0.5:
            world.client.open_cursor(cursor.id).close()
        return
    view = world.chance.choice(list(world.model.views))
    with world.numbered(f"cursor of {view}"):
        world.cursors.append(CursorLedger(world.client, view))


def fetch(world: World) -> None:
    """A fetch of a cursor; the answer may be lost."""
    if not world.cursors:
        return
    cursor = world.chance.choice(world.cursors)
    with world.numbered(f"fetch of {cursor.view}", lambda number: number != "TM1036") as found:
        cursor.fetch(world.client, world.chance.choice((1, 10, 1_000)), world.chance.random() < 0.3)
    if found and found[0] in ("TM8010", "TM2012"):
        world.cursors.remove(cursor)
        world.counts["cursors behind what is retained"] += found[0] == "TM8010"


def silent_reader(world: World) -> None:
    """A subscriber of everything that never reads; an earlier one ends."""
    if len(world.silent) >= MOST_SILENT:
        disturbances.reset(world.silent.pop(0))
    world.silent.append(disturbances.never_reads(world.server, list(world.model.views)))
    world.note("a subscriber that never reads")


def wrong(world: World) -> None:
    """Some bad requests, and half of a message."""
    for _ in range(3):
        world.note(disturbances.bad_request(world.server, world.chance))
        world.counts["bad requests"] += 1
    view = world.chance.choice(list(world.model.views))
    world.note(f"half of a message: {disturbances.half_message(world.server, world.chance, view)}")
    world.counts["halves of messages"] += 1


def crowd(world: World) -> None:
    """Requests that read, at the same time, beside new rows."""
    views = [world.chance.choice(list(world.model.views)) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(_read, world, view, i % 6) for i, view in enumerate(views)]
        push(world)
        for future in asked:
            with world.numbered("crowd"):
                future.result()


def _read(world: World, view: str, way: int) -> None:
    server = world.server
    if way == 0:
        world.client.table(view).to_arrow()
    elif way == 1:
        with psycopg.connect(server.postgres, connect_timeout=30) as connection, connection.cursor("c") as cursor:
            cursor.execute(f"SELECT * FROM {view}")
            cursor.fetchmany(10)
    elif way == 2:
        with flight.FlightClient(server.flight) as client:
            client.do_get(flight.Ticket(json.dumps({"view": view}).encode())).read_all()
    elif way == 3:
        world.client.sql(f"SELECT COUNT(*) AS n FROM {view}")
    elif way == 4:
        for path in ("/v1/queues", "/v1/state", "/v1/sources", "/metrics", f"/v1/queries/{view}/graph"):
            found = httpx.get(f"{server.url}{path}", timeout=PATIENCE)
            if found.status_code >= 500:
                raise SoakError(f"{path}: {found.status_code}: {found.text[:300]}")
    else:
        world.client.sql("SHOW QUEUES")
