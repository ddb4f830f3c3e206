"""What messages of S3 say, and which of the objects a place means."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote_plus

import pytest

from tidemill.errors import TidemillError
from tidemill.sources.locations.location import location_of
from tidemill.sources.notifications import Created, MisunderstoodError, created_objects

TIME = 1_790_000_000_123_000_000


def record(key: str, name: str = "ObjectCreated:Put", **entry: Any) -> dict[str, Any]:
    """As S3's documents have it."""
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventTime": "2026-09-21T14:13:20.123Z",
        "eventName": name,
        "s3": {
            "bucket": {"name": "in", "arn": "arn:aws:s3:::in"},
            "object": {"key": quote_plus(key), "size": 7, "eTag": "abc", "sequencer": "0A", **entry},
        },
    }


def records(*found: dict[str, Any]) -> str:
    return json.dumps({"Records": found})


def bridge(key: str, detail_type: str = "Object Created") -> str:
    detail = {"bucket": {"name": "in"}, "object": {"key": key, "size": 7, "etag": "abc", "sequencer": "0A"}}
    event = {"source": "aws.s3", "detail-type": detail_type, "time": "2026-09-21T14:13:20.123Z", "detail": detail}
    return json.dumps(event)


def sns(body: str) -> str:
    return json.dumps({"Type": "Notification", "TopicArn": "arn:aws:sns:x", "Message": body})


@pytest.mark.parametrize("key", ["a/b.csv", "a b+c/é%20=ü.csv", "x/" + "n" * 1000, 'quote"\\.csv'])
def test_an_object_however_its_event_comes(key: str) -> None:
    wanted = Created("in", key, 7, '"abc"', TIME, "0A")
    direct = records(record(key))
    for body in (direct, sns(direct), bridge(key), sns(bridge(key)), records(record(key, "s3:ObjectCreated:Copy"))):
        assert created_objects(body) == [wanted]


def test_several_records_and_events_that_create_nothing() -> None:
    body = records(record("a"), record("b", "ObjectRemoved:Delete"), record("c", "ObjectCreated:Post"))
    assert [c.key for c in created_objects(body)] == ["a", "c"]
    test = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "in"}
    others = (json.dumps(test), sns(json.dumps(test)), bridge("a", "Object Deleted"), records())
    assert [created_objects(o) for o in others] == [[], [], [], []]


@pytest.mark.parametrize(
    ("entry", "known"),
    [({}, True), ({"size": None}, False), ({"size": "7"}, False), ({"eTag": ""}, False), ({"eTag": None}, False)],
)
def test_what_a_message_leaves_out_is_not_invented(entry: dict[str, Any], known: bool) -> None:
    (found,) = created_objects(records(record("a", **entry)))
    assert (found.info("s3://in/a") is not None) == known
    timeless = {**record("a"), "eventTime": "yesterday"}
    assert created_objects(records(timeless))[0].info("s3://in/a") is None


@pytest.mark.parametrize(
    "body",
    ["", "hello", "[1]", "7", "{}", '{"Message": 7}', '{"Message": "x"}', '{"Records": [1]}', '{"Records": [{}]}',
     '{"Records": [{"eventName": "ObjectCreated:Put", "s3": {}}]}', '{"source": "aws.s3", "detail": 1}' + " ",
     records(record("")), "[" * 100_000, sns(sns(sns(records(record("a"))))),
     records(record("a")).replace('"a"', '"%ff"')],
)  # fmt: skip
def test_messages_of_somebody_else(body: str) -> None:
    if body.startswith('{"source"'):
        body = body.replace('"detail"', '"detail-type": "Object Created", "detail"')
    with pytest.raises(MisunderstoodError):
        created_objects(body)


def test_which_of_two_events_is_the_later_one() -> None:
    def made(sequencer: str, time: int | None = None) -> Created:
        return Created("in", "a", 1, '"x"', time, sequencer)

    assert made("0f0").later_than(made("F")) and not made("F").later_than(made("0F0"))
    assert made("", 2).later_than(made("0f", 1)) and not made("", 1).later_than(made("", 2))


@pytest.mark.parametrize(
    ("path", "recursive", "meant", "others"),
    [
        ("s3://in/x/", False, ["x/a", "x/a.csv"], ["x/y/a", "x/_a", "x/.a", "x", "x/", "xa", "y/a"]),
        ("s3://in/x", False, ["x", "x/a"], ["x/y/a", "x/_a", "xa"]),
        ("s3://in/x", True, ["x", "x/a", "x/y/a"], ["x/y/_a", "x/_y/a"]),
        ("s3://in", False, ["a"], ["x/a", "_a"]),
        ("s3a://in/x/**/*.csv", False, ["x/a.csv", "x/y/z/a.csv"], ["x/a.json", "x/_y/a.csv"]),
        ("s3://in/{x,y}/[ab]*", False, ["x/a", "y/b1"], ["x/c", "z/a"]),
    ],
)
def test_objects_of_a_place(path: str, recursive: bool, meant: list[str], others: list[str]) -> None:
    place = location_of(path, {"recursivefilelookup": str(recursive)})
    store = path.partition("://")[0] + "://in"
    assert [place.path_of("in", key) for key in meant] == [f"{store}/{key}" for key in meant]
    assert [place.path_of("in", key) for key in others] == [None] * len(others)
    assert place.path_of("inn", meant[0]) is None


URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/events"


@pytest.mark.parametrize(
    ("options", "number", "says"),
    [
        ({"usenotifications": "yes", "queueurl": URL}, "TM4003", "useNotifications"),
        ({"queueurl": URL}, "TM4003", "queueUrl"),
        ({"backfillinterval": "1 day"}, "TM4003", "backfillInterval"),
        ({"usenotifications": "false", "queueendpoint": "https://x"}, "TM4003", "queueEndpoint"),
        ({"usenotifications": "true"}, "TM4003", "useNotifications"),
        ({"usenotifications": "true", "queueurl": "arn:aws:sqs:eu-central-1:1:events"}, "TM4003", "queueUrl"),
        ({"usenotifications": "true", "queueurl": "https://host/events"}, "TM4003", "queueUrl"),
        ({"usenotifications": "true", "queueurl": "https://u:pass@host/1/events"}, "TM4003", "queueUrl"),
        ({"usenotifications": "true", "queueurl": "https://host:x/1/events"}, "TM4003", "queueUrl"),
        ({"usenotifications": "true", "queueurl": f"{URL}?X-Amz-Security-Token=pass"}, "TM4003", "queueUrl"),
        ({"usenotifications": "true", "queueurl": URL, "queueendpoint": "host:1"}, "TM4003", "queueEndpoint"),
        ({"usenotifications": "true", "queueurl": "http://host/1/events"}, "TM5034", "encryption"),
    ],
)
def test_options_that_say_nothing_clear(
    options: dict[str, str], number: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(TidemillError, match=f"{number}.*{says}") as caught:
        location_of("s3://in/x/", options)
    assert "pass" not in str(caught.value)


@pytest.mark.parametrize("path", ["/data/in", "gs://in/x/", "az://in/x/"])
def test_notifications_are_for_s3(path: str) -> None:
    with pytest.raises(TidemillError, match=r"TM4003.*useNotifications"):
        location_of(path, {"usenotifications": "true", "queueurl": URL})


@pytest.mark.parametrize(
    ("options", "region", "origin"),
    [
        ({}, "eu-central-1", "https://sqs.eu-central-1.amazonaws.com"),
        ({"region": "us-west-2"}, "eu-central-1", "https://sqs.eu-central-1.amazonaws.com"),
        ({"queueurl": "https://host:9324/0/events", "region": "us-west-2"}, "us-west-2", "https://host:9324"),
        ({"queueurl": "https://host/0/events"}, "ap-south-1", "https://host"),
        (
            {"queueendpoint": "https://vpce-1.sqs.us-gov-west-1.vpce.amazonaws.com/", "queueurl": "https://host/0/e"},
            "us-gov-west-1",
            "https://vpce-1.sqs.us-gov-west-1.vpce.amazonaws.com",
        ),
    ],
)
def test_where_a_queue_is(options: dict[str, str], region: str, origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    queue = location_of("s3://in/x/", {"usenotifications": "TRUE", "queueurl": URL, **options}).queue
    assert queue is not None and (queue.region, queue.origin) == (region, origin)


def test_a_place_shows_no_secret() -> None:
    given = {"usenotifications": "true", "queueurl": URL, "awsaccesskey": "AKID", "awssecretkey": "hush"}
    place = location_of("s3://in/x/", given)
    assert "hush" not in repr(place) and "AKID" not in repr(place) and URL in repr(place)
