"""What is killed and lost: workers, the server, and the connections of senders; and where everything goes on then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from benchmarks.processes import executors, kill_some, workers
from benchmarks.soak.actions import push
from benchmarks.soak.error import SoakError
from benchmarks.soak.feeds import MARK, SocketFeed
from benchmarks.soak.queries import random_view
from benchmarks.soak.world import PATIENCE, World
from tidemill.errors import TidemillError


def kill_workers(world: World) -> None:
    """``kill -9`` of Spark's Python workers while an epoch runs; in a cluster also of an executor."""
    push(world)
    time.sleep(world.chance.random() / 5)
    pids = workers(world.server.pid)
    if world.chance.random() < 0.5:
        pids = pids[:1]
    if (cluster := executors(world.server.pid)) and world.chance.random() < 0.2:
        pids = cluster[:1]
    world.counts["workers killed"] += kill_some(pids)
    world.note(f"{len(pids)} workers killed")


def lose_sender(world: World) -> None:
    """A sender's connection is reset behind some lines, and perhaps a half one; it sends again what did not arrive."""
    names = [n for n, f in world.feeds.items() if isinstance(f, SocketFeed)]
    if not names:
        return
    name = world.chance.choice(names)
    world.settle(name)
    feed = world.feeds[name]
    assert isinstance(feed, SocketFeed)
    feed.push_unsure(world.chance.choice((1, 10, 300)))
    time.sleep(world.chance.random() / 10)
    peer = feed.peer
    feed.reset()
    _resume(world, name, feed, peer)
    world.counts["senders lost"] += 1


def _resume(world: World, name: str, feed: SocketFeed, peer: str | None) -> None:
    """Find out how many lines have arrived, once the table has noticed the end of the connection.

    A line over the next connection comes behind all of them.
    """
    deadline = time.monotonic() + PATIENCE
    feed.wait_for_peer()
    while peer is not None and _is_connected(world, name, peer):
        if time.monotonic() > deadline:
            raise SoakError(f"table {name} has not noticed that {peer} has gone")
        time.sleep(0.05)
    mark = feed.mark()
    while world.client.table(f"copy_{name}", columns="n", where=f"c = {MARK} AND n = {mark}").to_arrow().num_rows < 1:
        if time.monotonic() > deadline:
            raise SoakError(f"table {name}: line {mark} over a new connection does not arrive")
        time.sleep(0.05)
    arrived = world.copied(name) - world.model.lines(name) - 1
    world.model.add(name, feed.kind, feed.resume(arrived))
    world.note(f"sender of {name}: {arrived} lines had arrived")


def _is_connected(world: World, name: str, peer: str) -> bool:
    found = world.client.sql(f"SELECT state FROM {name}__status WHERE peer = '{peer}' AND state <> 'closed'")
    assert found is not None and not isinstance(found, str)
    return found.to_arrow().num_rows > 0


def kill_server(world: World) -> None:
    """``kill -9`` of the server while rows come and perhaps a view is created; then it is started again."""
    sockets = {n: f for n, f in world.feeds.items() if isinstance(f, SocketFeed)}
    for name in sockets:
        world.settle(name)
    for sender in sockets.values():
        sender.push_unsure(world.chance.choice((1, 50, 1_000)))
    for name, feed in world.feeds.items():
        if name not in sockets:
            world.model.add(name, feed.kind, feed.push(world.chance.choice((1, 50, 1_000))))
    creating = _create_in_background(world) if world.chance.random() < 0.5 else None
    time.sleep(world.chance.random() / 2)
    world.server.count_answers()
    world.server.kill()
    for sender in sockets.values():
        sender.reset()
    _forget_silent(world)
    seconds = world.server.start()
    world.counts["servers killed"] += 1
    world.note(f"the server was killed; ready after {seconds:.1f} s")
    if creating is not None:
        creating()
    for name, lost in sockets.items():
        _resume(world, name, lost, None)


def _create_in_background(world: World) -> Callable[[], None]:
    """CREATE of a view in a thread; what is returned finds out, after the kill, whether it is there."""
    view = random_view(world.chance, world.new_name("v"), list(world.feeds), world.queries())
    ended: list[str] = []

    def create() -> None:
        try:
            world.client.sql(view.statement())
            ended.append("created")
        except TidemillError as error:
            ended.append(error.number)

    thread = threading.Thread(target=create, daemon=True)
    thread.start()

    def find_out() -> None:
        thread.join(PATIENCE)
        is_there = view.name in {v["name"] for v in world.client.status()["views"]}
        if ended == ["created"] and not is_there:
            raise SoakError(f"view {view.name} was created, and is not there after the kill")
        if is_there:
            world.model.views[view.name] = view
        world.note(f"CREATE of {view.name} beside the kill: {ended}, it is {'' if is_there else 'not '}there")

    return find_out


def restart(world: World) -> None:
    """SIGTERM, which must end with exit code 0, and another start."""
    for name, feed in world.feeds.items():
        if isinstance(feed, SocketFeed):
            world.settle(name)
            feed.reset()
    world.server.count_answers()
    _forget_silent(world)
    world.server.stop()
    seconds = world.server.start()
    world.counts["clean restarts"] += 1
    world.note(f"a clean restart; ready after {seconds:.1f} s")


def _forget_silent(world: World) -> None:
    for connection in world.silent:
        connection.close()
    world.silent.clear()
