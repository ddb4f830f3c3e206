"""Files that a queue tells of: every row once, whatever becomes of messages, objects and processes."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest
from queue_mill import BUCKET, QueueMill, Store

from clock import Clock
from s3_proxy import Answer, Request, S3Proxy
from tidemill.errors import TidemillError
from tidemill.runtime.files import file_progress, listed_files
from tidemill.runtime.intake import listing, queue_listener

SECRET = "wJalrXUtnFEMI-secret"


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setattr(queue_listener, "WAIT_SECONDS", 0)
    made = Store(endpoint)
    yield made
    made.remove()


@pytest.fixture
def proxy(endpoint: str) -> Iterator[S3Proxy]:
    made = S3Proxy(endpoint)
    yield made
    made.close()


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[QueueMill]:
    made = QueueMill(tmp_path)
    yield made
    made.intake.close(0)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read may be tried again at once."""
    monkeypatch.setattr(file_progress, "FIRST_RETRY", 0)


def given(store: Store, **more: str) -> dict[str, str]:
    return {"path": f"s3://{BUCKET}/in/*.csv", "usenotifications": "true", "queueurl": store.url, **more}


def listings(proxy: S3Proxy) -> int:
    return len(proxy.of("GET", "list-type=2"))


def subscribe(store: Store, way: str, endpoint: str) -> None:
    """Let the server send the bucket's events to the queue."""
    found = store.sqs.get_queue_attributes(QueueUrl=store.url, AttributeNames=["QueueArn"])
    arn = found["Attributes"]["QueueArn"]
    wanted = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]
    configuration: dict[str, Any] = {"QueueConfigurations": [{"QueueArn": arn, "Events": wanted}]}
    if way == "SNS":
        sns = boto3.client("sns", endpoint_url=endpoint, region_name="us-east-1")
        topic = sns.create_topic(Name="events")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
        configuration = {"TopicConfigurations": [{"TopicArn": topic, "Events": wanted}]}
    elif way == "EventBridge":
        events = boto3.client("events", endpoint_url=endpoint, region_name="us-east-1")
        events.put_rule(Name="all", EventPattern='{"source": ["aws.s3"]}')
        events.put_targets(Rule="all", Targets=[{"Id": "queue", "Arn": arn}])
        configuration = {"EventBridgeConfiguration": {}}
    store.s3.put_bucket_notification_configuration(Bucket=BUCKET, NotificationConfiguration=configuration)


@pytest.mark.parametrize("way", ["directly", "SNS", "EventBridge"])
def test_what_s3_tells_by_itself(store: Store, mill: QueueMill, endpoint: str, way: str) -> None:
    """The server sends the events, test event and odd names included; what was there before is listed."""
    store.put("in/before.csv", b"0")
    subscribe(store, way, endpoint)
    mill.create("t", **given(store))
    expected = {"in/before.csv": b"0"}
    mill.until(lambda: mill.contents() == expected)
    for key in ("in/a b+c.csv", "in/ü%20=&.csv", "in/other.json", "elsewhere/a.csv", "in/below/a.csv", "in/_a.csv"):
        store.put(key, key.encode())
        if key in ("in/a b+c.csv", "in/ü%20=&.csv"):
            expected[key] = key.encode()
    assert store.left() >= 6, "the server did send events"
    store.s3.delete_object(Bucket=BUCKET, Key="in/other.json")
    mill.until(lambda: mill.contents() == expected and not store.left())
    assert not mill.said
    mill.drain()
    assert mill.contents() == expected


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("overwrites", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_random_events(store: Store, mill: QueueMill, seed: int, overwrites: str) -> None:
    """Messages that are late, lost, doubled and early; objects that are overwritten and deleted; kills at any time."""
    chance = random.Random(seed)
    mill.create("t", **given(store, allowoverwrites=overwrites, backfillinterval="2 seconds", fileattempts="1000"))
    now: dict[str, bytes] = {}
    late: list[str] = []
    for number in range(80):
        again = now and overwrites == "true" and chance.random() < 0.3
        key = chance.choice(list(now)) if again else f"in/{chance.random()}.csv"
        body = b"%d" % number * chance.randint(1, 5)
        if not again and chance.random() < 0.2:
            early = store.put("spare", body)
            store.tell(store.event(key, body, early))
            if chance.random() < 0.7:
                mill.step()
        etag = store.put(key, body)
        now[key] = body
        messages = [store.event(key, body, etag)] * chance.choice([0, 1, 1, 1, 2])
        late += [store.event(f"in/{number}.csv", b"x", '"y"', "ObjectRemoved:Delete")]
        if chance.random() < 0.4:
            late += messages
        else:
            store.tell(*messages)
        if late and chance.random() < 0.3:
            store.tell(late.pop(chance.randrange(len(late))))
        what = chance.random()
        if what < 0.5:
            mill.step()
        elif what < 0.6:
            mill.checkpoint()
        elif what < 0.7:
            mill.crash()
    store.tell(*late)
    mill.until(lambda: mill.contents() == now and not store.left(), 60.0)
    mill.crash()
    mill.drain()
    assert mill.contents() == now
    assert not [s for s in mill.said if not s.startswith(("TM5041", "TM5042"))], "no queue or message was wrong"


@pytest.mark.usefixtures("at_once")
def test_a_message_is_deleted_when_its_name_is_durable(store: Store, mill: QueueMill) -> None:
    mill.create("t", **given(store))
    mill.until(lambda: not mill.intake.retry_in())
    store.tell(store.event("in/a.csv", b"a", store.put("in/a.csv", b"a")))
    while not mill.step():
        time.sleep(0.01)
    for _ in range(20):
        mill.step()
    assert (store.left(), mill.contents()) == (1, {"in/a.csv": b"a"}), "sealed, and not durable"
    mill.crash()
    assert mill.contents() == {}
    mill.until(lambda: mill.contents() == {"in/a.csv": b"a"} and not store.left())
    epoch = mill.version.epoch
    store.tell(store.event("in/a.csv", b"a", store.s3.head_object(Bucket=BUCKET, Key="in/a.csv")["ETag"]))
    mill.until(lambda: not store.left())
    assert mill.version.epoch == epoch, "what is known needs no epoch"


@pytest.mark.usefixtures("at_once")
def test_an_object_that_comes_after_its_event(store: Store, mill: QueueMill, monkeypatch: pytest.MonkeyPatch) -> None:
    mill.create("t", **given(store))
    etag = store.put("spare", b"late")
    store.tell(store.event("in/late.csv", b"late", etag), store.event("in/never.csv", b"n", etag))
    monkeypatch.setattr(queue_listener, "MOST_TIMES", 4)
    for _ in range(40):
        mill.step()
        mill.checkpoint()
        time.sleep(0.01)
    assert (mill.contents(), store.left(), mill.said) == ({}, 2, [])
    store.put("in/late.csv", b"late")
    mill.until(lambda: mill.contents() == {"in/late.csv": b"late"} and not store.left() and mill.said)
    assert [s[:6] for s in mill.said] == ["TM5042"] and "never.csv" in mill.said[0]


@pytest.mark.usefixtures("at_once")
def test_an_old_event_of_an_overwritten_object(store: Store, mill: QueueMill, proxy: S3Proxy) -> None:
    """The store is asked; nothing is read in vain, or set aside."""
    mill.create("t", **given(store, allowoverwrites="true", fileattempts="1", endpoint=proxy.url))
    first = store.event("in/a.csv", b"1", store.put("in/a.csv", b"1"))
    second = store.event("in/a.csv", b"22", store.put("in/a.csv", b"22"))
    store.tell(second)
    mill.until(lambda: mill.contents() == {"in/a.csv": b"22"} and not store.left())
    asked = len(proxy.of("HEAD"))
    store.tell(first)
    mill.until(lambda: not store.left() and len(proxy.of("HEAD")) > asked)
    assert (mill.contents(), mill.said) == ({"in/a.csv": b"22"}, [])
    store.tell(store.event("in/a.csv", b"333", store.put("in/a.csv", b"333")))
    mill.until(lambda: mill.contents() == {"in/a.csv": b"333"})


@pytest.mark.usefixtures("at_once")
def test_an_overwritten_object_whose_second_event_was_lost(store: Store, mill: QueueMill) -> None:
    mill.create("t", **given(store))
    mill.step()
    old = store.event("in/a.csv", b"1", store.put("in/a.csv", b"1"))
    store.put("in/a.csv", b"22")
    store.tell(old)
    mill.until(lambda: mill.contents() == {"in/a.csv": b"22"} and not store.left())


def test_events_that_leave_something_out(store: Store, mill: QueueMill, proxy: S3Proxy) -> None:
    mill.create("t", **given(store, endpoint=proxy.url, pathglobfilter="[ab].csv"))
    for key in ("in/a.csv", "in/b.csv", "in/c.csv"):
        store.put(key, key.encode())
    store.tell(store.event("in/a.csv", b"", "").replace('"size": 0', '"size": null'))
    store.tell(store.event("in/b.csv", b"in/b.csv", ""), store.event("in/c.csv", b"in/c.csv", '"x"'))
    expected = {"in/a.csv": b"in/a.csv", "in/b.csv": b"in/b.csv"}
    mill.until(lambda: mill.contents() == expected and not store.left())


def test_times_of_objects_count_and_not_of_events(store: Store, mill: QueueMill) -> None:
    mill.create("t", **given(store, modifiedbefore="2020-01-01T00:00:00"))
    etag = store.put("in/a.csv", b"a")
    store.tell(store.event("in/a.csv", b"a", etag).replace(time.strftime('"%Y-'), '"2019-'))
    mill.until(lambda: not store.left())
    assert mill.contents() == {}


def test_messages_of_somebody_else(store: Store, mill: QueueMill, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold up nobody, are told of once, and go in the end."""
    monkeypatch.setattr(queue_listener, "MOST_TIMES", 3)
    mill.create("t", **given(store))
    store.tell("hello", '{"Records": 7}', *["x"] * 20, store.event("in/a.csv", b"a", store.put("in/a.csv", b"a")))
    mill.until(lambda: mill.contents() == {"in/a.csv": b"a"})
    assert store.left() >= 20, "a queue of dead letters could take them"
    mill.until(lambda: not store.left() and mill.said)
    assert [s[:6] for s in mill.said] == ["TM5079"] and "hello" not in mill.said[0]


def test_what_no_message_tells_of_is_listed(
    store: Store, mill: QueueMill, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(runs=True)
    monkeypatch.setattr(listing, "time", clock)
    mill.create("t", **given(store, backfillinterval="1 hour", endpoint=proxy.url))
    store.put("in/a.csv", b"a")
    mill.until(lambda: mill.contents() == {"in/a.csv": b"a"})
    store.put("in/b.csv", b"b")
    before = listings(proxy)
    for _ in range(20):
        mill.step()
    assert (listings(proxy), len(mill.contents())) == (before, 1), "it is not time yet"
    clock.forward(3600)
    mill.until(lambda: len(mill.contents()) == 2)
    assert listings(proxy) == before + 1


def test_a_restart_lists_only_when_it_is_time(store: Store, mill: QueueMill, proxy: S3Proxy) -> None:
    store.put("in/a.csv", b"a")
    mill.create("t", **given(store, endpoint=proxy.url))
    mill.until(lambda: mill.contents() == {"in/a.csv": b"a"})
    before = listings(proxy)
    mill.crash()
    store.tell(store.event("in/b.csv", b"b", store.put("in/b.csv", b"b")))
    store.put("in/c.csv", b"c")
    mill.until(lambda: mill.contents() == {"in/a.csv": b"a", "in/b.csv": b"b"})
    assert listings(proxy) == before
    mill.drain()
    assert len(mill.contents()) == 3 and listings(proxy) > before


def test_a_listing_that_was_not_sealed_is_made_again(store: Store, mill: QueueMill) -> None:
    store.put("in/a.csv", b"a")
    mill.create("t", **given(store))
    mill.intake.list_files(0.0, 0)
    mill.checkpoint()
    mill.crash()
    mill.until(lambda: mill.contents() == {"in/a.csv": b"a"})


def test_once_lists_and_then_empties_the_queue(store: Store, mill: QueueMill) -> None:
    mill.create("t", **given(store))
    for number in range(30):
        key, body = f"in/{number}.csv", b"%d" % number
        etag = store.put(key, body)
        store.tell(*[store.event(key, body, etag)] * (number % 3))
    mill.drain()
    mill.close()
    assert mill.contents() == {f"in/{n}.csv": b"%d" % n for n in range(30)} and not store.left()


def test_a_queue_does_not_wait_for_the_listing_of_others(
    store: Store, mill: QueueMill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another table has more files than may wait, and does not come to an end."""
    monkeypatch.setattr(listed_files, "ROOM", 3)
    for number in range(10):
        (tmp_path / f"{number}.csv").write_bytes(b"1")
    mill.create("t", **given(store))
    mill.create("u", path=str(tmp_path))
    mill.intake.use({"t", "u"}, {})
    store.tell(store.event("in/a.csv", b"a", store.put("in/a.csv", b"a")))
    mill.intake.list_all()
    assert store.left() == 1 and list(mill.intake._live["t"].known) == [f"s3://{BUCKET}/in/a.csv"]
    assert any(p.under_way for p in mill.intake._lists._locations.values())
    mill.epoch()
    mill.checkpoint()
    mill.close()
    assert store.left() == 0


def test_tables_that_share_a_queue(store: Store, mill: QueueMill, proxy: S3Proxy) -> None:
    """Two of one place, one of another, one with a filter: a message is received once, for all."""
    common = given(store, queueendpoint=proxy.url)
    mill.create("t", **common)
    mill.create("u", **common)
    mill.create("v", **{**common, "path": f"s3://{BUCKET}/**/*.csv"})
    mill.create("w", **{**common, "pathglobfilter": "[!a]*"})
    for key in ("in/a.csv", "in/b.csv", "x/y.csv"):
        store.tell(store.event(key, key.encode(), store.put(key, key.encode())))
    some = {k: k.encode() for k in ("in/a.csv", "in/b.csv")}
    mill.until(lambda: not store.left())
    assert mill.contents("t") == mill.contents("u") == some
    assert mill.contents("v") == {**some, "x/y.csv": b"x/y.csv"}
    assert mill.contents("w") == {"in/b.csv": b"in/b.csv"}


@pytest.mark.parametrize("places", [1, 2])
def test_an_object_of_several_tables_that_is_not_there(
    store: Store, mill: QueueMill, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    monkeypatch.setattr(queue_listener, "MOST_TIMES", 2)
    mill.create("t", **given(store))
    mill.create("u", **given(store, **({} if places == 1 else {"path": f"s3://{BUCKET}/in/"})))
    store.tell(store.event("in/a.csv", b"a", '"x"'))
    mill.until(lambda: not store.left() and len(mill.said) >= 2)
    assert [s[:6] for s in mill.said] == ["TM5042"] * 2


def refused(code: str, status: int) -> Callable[[Request, Callable[[], Answer]], Answer]:
    """Every request to the queue fails."""

    def rule(request: Request, forward: Callable[[], Answer]) -> Answer:
        if request.method != "POST":
            return forward()
        body = f'{{"__type": "com.amazonaws.sqs#{code}", "message": "of {SECRET}"}}'
        return Answer(status, body.encode(), {"Content-Type": "application/x-amz-json-1.0"})

    return rule


def create_fails(mill: QueueMill, number: str, options: dict[str, str]) -> None:
    with pytest.raises(TidemillError, match=number) as caught:
        mill.create("t", **options, awsaccesskey="AKIDEXAMPLE", awssecretkey=SECRET)
    assert SECRET not in str(caught.value) and "AKIDEXAMPLE" not in str(caught.value)
    assert not mill.catalog.tables


def test_queues_that_are_refused_when_a_table_is_created(
    store: Store, mill: QueueMill, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = given(store, queueendpoint=proxy.url, maxretries="0", requesttimeout="1")
    create_fails(mill, "TM5076", {**through, "queueurl": f"{store.url}-not"})
    for code, status, number in (
        ("AccessDenied", 403, "TM5077"),
        ("InvalidClientTokenId", 403, "TM5077"),
        ("InvalidSecurity", 400, "TM5077"),
        ("InternalFailure", 500, "TM5078"),
        ("RequestThrottled", 400, "TM5078"),
    ):
        proxy.rule = refused(code, status)
        create_fails(mill, f"{number}(?s:.*){code}", through)
    proxy.rule = lambda request, forward: Answer(0, b"") if request.method == "POST" else forward()
    create_fails(mill, "TM5078", through)
    create_fails(mill, "TM5078", {**through, "queueendpoint": "http://127.0.0.1:9"})
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    create_fails(mill, "TM5075", through)


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"static": "true"}, "TM2039"),
        ({"backfillinterval": "soon"}, "TM4003"),
        ({"backfillinterval": "0 seconds"}, "TM4003"),
    ],
)
def test_tables_that_cannot_be(store: Store, mill: QueueMill, options: dict[str, str], number: str) -> None:
    create_fails(mill, number, given(store, **options))


@pytest.mark.slow
def test_a_queue_that_fails_later(
    store: Store, mill: QueueMill, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warnings with pauses that grow, listings go on, and all is as before when it answers again."""
    options = given(store, queueendpoint=proxy.url, maxretries="0", backfillinterval="1 second")
    mill.create("t", **options)
    mill.step()
    refuse, tried = refused("AccessDenied", 403), []

    def rule(request: Request, forward: Callable[[], Answer]) -> Answer:
        if request.method == "POST":
            tried.append(time.monotonic())
        return refuse(request, forward)

    proxy.rule = rule
    store.tell(store.event("in/a.csv", b"a", store.put("in/a.csv", b"a")))
    mill.until(lambda: mill.contents() == {"in/a.csv": b"a"})
    mill.until(lambda: len(mill.said) >= 3)
    assert {s[:6] for s in mill.said} == {"TM5077"}
    pauses = [after - before for before, after in pairwise(tried)]
    assert all(pause >= least for pause, least in zip(pauses, (0.9, 1.9), strict=False)), "1 second, 2 seconds, ..."
    assert SECRET not in str(mill.said)
    proxy.rule = lambda _, forward: forward()
    mill.until(lambda: not store.left())


def test_receiving_does_not_hold_up_epochs(store: Store, mill: QueueMill, proxy: S3Proxy) -> None:
    mill.create("t", **given(store, queueendpoint=proxy.url))
    mill.until(lambda: not mill.step())
    asked, released, answered = threading.Event(), threading.Event(), threading.Event()

    def rule(request: Request, forward: Callable[[], Answer]) -> Answer:
        found = forward()
        if request.method == "POST":
            asked.set()
            released.wait(60)
            answered.set()
        return found

    proxy.rule = rule
    store.tell(store.event("in/a.csv", b"a", store.put("in/a.csv", b"a")))
    mill.until(asked.is_set)
    for _ in range(20):
        mill.step()
    assert not answered.is_set() and not mill.rows, "epochs went on while the queue had not answered"
    released.set()
    mill.until(lambda: mill.contents() == {"in/a.csv": b"a"})


def test_a_table_that_no_view_reads(store: Store, mill: QueueMill) -> None:
    """Nothing is listed or heard for it; messages for it that another table hears are made good by a listing."""
    mill.create("t", **{**given(store), "path": f"s3://{BUCKET}/in/a/", "backfillinterval": "1 hour"})
    mill.create("u", **{**given(store), "path": f"s3://{BUCKET}/in/b/", "backfillinterval": "1 hour"})
    mill.until(lambda: not mill.step())
    mill.unread = {"t"}
    for key in ("in/a/1.csv", "in/b/1.csv"):
        store.tell(store.event(key, b"x", store.put(key, b"x")))
    mill.until(lambda: not store.left())
    assert mill.contents("t") == {} and mill.contents("u") == {"in/b/1.csv": b"x"}
    mill.unread = {"u"}
    mill.until(lambda: mill.contents("t") == {"in/a/1.csv": b"x"})
    mill.unread = {"t", "u"}
    store.tell(store.event("in/a/2.csv", b"y", store.put("in/a/2.csv", b"y")))
    for _ in range(5):
        mill.step()
    assert store.left() == 1 and mill.contents("t") == {"in/a/1.csv": b"x"}
    mill.crash()
    mill.unread = set()
    mill.until(lambda: mill.contents("t") == {"in/a/1.csv": b"x", "in/a/2.csv": b"y"})
    mill.until(lambda: not store.left())


def test_a_queue_that_is_not_heard_any_more_has_its_messages_back(store: Store, mill: QueueMill) -> None:
    quiet = Store.__new__(Store)
    quiet.sqs, quiet.url = store.sqs, store.sqs.create_queue(QueueName="quiet")["QueueUrl"]
    mill.create("t", **{**given(store), "queueurl": quiet.url})
    mill.step()
    quiet.tell(store.event("in/a.csv", b"a", store.put("in/a.csv", b"a")))
    while not mill.step():
        time.sleep(0.01)
    mill.intake.close(0)
    found = boto3.client("sqs", endpoint_url=store.sqs.meta.endpoint_url, region_name="us-east-1")
    assert len(found.receive_message(QueueUrl=quiet.url).get("Messages", ())) == 1
    store.sqs.delete_queue(QueueUrl=quiet.url)
