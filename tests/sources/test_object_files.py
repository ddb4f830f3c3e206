"""Files in an object store: what is listed with which requests, and reading exactly what was listed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlparse

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.s3.models import s3_backends

import tidemill.formats
from s3_proxy import Answer, Request, S3Proxy, failing, s3_error
from tidemill.errors import TidemillError
from tidemill.formats.reading.feeding import file_bytes
from tidemill.objectstore.connection import parse_connection, split_url
from tidemill.sources.file_info import FileInfo
from tidemill.sources.locations.location import Location, location_of, reader_of
from tidemill.sources.objects.listing import object_pages
from tidemill.sources.objects.small_objects import AHEAD, MOST_BYTES, SmallObjects
from tidemill.sources.split import Split

SECRET = "wJalrXUtnFEMI-secret"


@pytest.fixture
def proxy(endpoint: str) -> Iterator[S3Proxy]:
    """A proxy in front of the endpoint."""
    made = S3Proxy(endpoint)
    yield made
    made.close()


@pytest.fixture
def bucket(endpoint: str) -> Any:
    """Writes objects into an empty bucket: ``bucket.put(key, bytes)``."""
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="objects")

    class Bucket:
        def put_many(self, keys: list[str]) -> None:
            """Behind the back of HTTP, which would take long."""
            backend = s3_backends["123456789012"]["aws"]
            for key in keys:
                backend.put_object("objects", key, b"x")

        def put(self, key: str, body: bytes = b"x") -> None:
            client.put_object(Bucket="objects", Key=key, Body=body)

        def delete(self, key: str) -> None:
            client.delete_object(Bucket="objects", Key=key)

    yield Bucket()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="objects")
    for page in pages:
        found = [{"Key": o["Key"]} for o in page.get("Contents", ())]
        if found:
            client.delete_objects(Bucket="objects", Delete={"Objects": found})
    client.delete_bucket(Bucket="objects")


def options(proxy: S3Proxy, **more: str) -> dict[str, str]:
    """What says how the proxy is reached, with little patience."""
    return {
        "endpoint": proxy.url,
        "allowhttp": "true",
        "region": "us-east-1",
        "awsaccesskey": "KEYKEY",
        "awssecretkey": SECRET,
        "requesttimeout": "2",
        "maxretries": "2",
        **more,
    }


def place(proxy: S3Proxy, path: str, **more: str) -> Location:
    return location_of(f"s3://objects/{path}", options(proxy, **more))


def keys(proxy: S3Proxy, path: str, **more: str) -> list[str]:
    return [split_url(f.path)[1] for f in place(proxy, path, **more).listing()]


def whole(info: FileInfo) -> Split:
    return Split("t", info.path, 0, info.size, info.size, info.modified, etag=info.etag)


def read(proxy: S3Proxy, split: Split, buffer_bytes: int = 1 << 20, position: int = 0) -> bytes:
    reader = reader_of(split, options(proxy), buffer_bytes)
    reader.open(position)
    parts = []
    while part := reader.fill():
        parts.append(part)
    reader.close()
    return b"".join(parts)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("in/", ["in/a.csv", "in/b.csv", "in/c.txt", "in/empty"]),
        ("in", ["in/a.csv", "in/b.csv", "in/c.txt", "in/empty"]),
        ("", ["top"]),
        ("*", ["top"]),
        ("in/a.csv", ["in/a.csv"]),
        ("in/*.csv", ["in/a.csv", "in/b.csv"]),
        ("in/[!a].csv", ["in/b.csv"]),
        ("i?/{a,c}.*", ["in/a.csv", "in/c.txt"]),
        ("{in/sub,inn}/*", ["in/sub/d.csv", "inn/e.csv"]),
        ("in/**/*.csv", ["in/a.csv", "in/b.csv", "in/sub/d.csv"]),
        ("in/**", ["in/a.csv", "in/b.csv", "in/c.txt", "in/empty", "in/sub/d.csv"]),
        ("*/_temporary/*", []),
        ("in/_temporary/*", ["in/_temporary/f.csv"]),
        ("none*", []),
        ("none/", []),
    ],
)
def test_listing(bucket: Any, proxy: S3Proxy, path: str, expected: list[str]) -> None:
    names = ["a.csv", "b.csv", "c.txt", "sub/d.csv", ".h.csv", "_SUCCESS", "_temporary/f.csv", "g.csv._COPYING_"]
    for name in names:
        bucket.put(f"in/{name}", name.encode())
    bucket.put("in/empty", b"")
    bucket.put("inn/e.csv")
    bucket.put("top")
    assert keys(proxy, path) == expected


def test_filters_as_of_spark(bucket: Any, proxy: S3Proxy) -> None:
    for name in ("a.csv", "b.json", "s/c.csv", "s/.h/d.csv"):
        bucket.put(f"in/{name}")
    assert keys(proxy, "in/", pathglobfilter="*.{csv,tsv}") == ["in/a.csv"]
    assert keys(proxy, "in/", recursivefilelookup="true", pathglobfilter="*.csv") == ["in/a.csv", "in/s/c.csv"]
    assert keys(proxy, "i*", recursivefilelookup="true") == ["in/a.csv", "in/b.json", "in/s/c.csv"]
    assert keys(proxy, "in/", modifiedafter="2999-01-01T00:00:00") == []
    assert keys(proxy, "in/", modifiedbefore="2999-01-01", modifiedafter="2020-01-01 00:00:00+01:00") == [
        "in/a.csv",
        "in/b.json",
    ]


def test_what_was_listed_travels_with_the_file(bucket: Any, proxy: S3Proxy) -> None:
    bucket.put("in/a.csv", b"12345")
    (found,) = place(proxy, "in/*").listing()
    assert (found.path, found.size, found.etag) == (
        "s3://objects/in/a.csv",
        5,
        '"827ccb0eea8a706c4c34a16891f84e7b"',
    )
    assert abs(found.modified - time.time_ns()) < 60 * 10**9


def test_pages_and_the_narrowest_prefix(bucket: Any, proxy: S3Proxy) -> None:
    """One request a page, from the first key on that can be meant, and no page beyond the last one."""
    names = [f"logs/{year}/{i:03d}" for year in (2022, 2023, 2024, 2025) for i in range(700)]
    bucket.put_many(names)
    connection = parse_connection(options(proxy), "s3://objects")
    assert keys(proxy, "logs/2023/0*") == [n for n in names if n.startswith("logs/2023/0")]
    (request,) = proxy.asked("GET")
    query = parse_qs(urlparse(request.path).query)
    assert query["prefix"] == ["logs/2023/"] and query["start-after"][0].startswith("logs/2023/.")
    proxy.requests.clear()
    assert keys(proxy, "logs/202[34]/*") == names[700:2100]
    assert [parse_qs(urlparse(r.path).query)["prefix"] for r in proxy.asked("GET")] == [["logs/"]] * 3
    pages = object_pages("s3://objects/logs/**", connection, after="logs/2024/690")
    proxy.requests.clear()
    assert [f.path for f in next(pages)][:2] == ["s3://objects/logs/2024/691", "s3://objects/logs/2024/692"]
    assert len(proxy.asked()) == 1, "a page is asked for when it is wanted"


def test_directories_that_are_not_meant_are_jumped_over(bucket: Any, proxy: S3Proxy) -> None:
    bucket.put_many([f"in/archive/{i:05d}" for i in range(2500)])
    bucket.put("in/a")
    bucket.put("in/z")
    proxy.requests.clear()
    assert keys(proxy, "in/*") == ["in/a", "in/z"]
    assert len(proxy.asked()) == 2
    assert unquote_plus(urlparse(proxy.asked()[1].path).query).endswith("start-after=in/archive/\U0010ffff")


def test_names_of_any_kind(bucket: Any, proxy: S3Proxy) -> None:
    names = ["a b", "a+b", "a%20b", "a%b", "a#b", "a?b", "a&b=c", "ü/ж", "a\\b", "a~b", "a^`b", "a{b}", "a[b]", "a*b"]
    names += ['a"b', "a<b>", "a|b'", "a:b", "😀", "=1,2;3", "n" * 1000, "é" * 500]
    for name in names:
        bucket.put(f"odd/{name}", name.encode())
    infos = list(place(proxy, "odd/**").listing())
    assert {split_url(f.path)[1][4:] for f in infos} == set(names)
    assert {split_url(f.path)[1][4:]: read(proxy, whole(f)).decode() for f in infos} == {n: n for n in names}
    assert keys(proxy, r"odd/a\*b") == ["odd/a*b"] and keys(proxy, r"odd/a\[b\]") == ["odd/a[b]"]
    assert keys(proxy, "odd/a%20b") == ["odd/a%20b"], "nothing is decoded"
    longest = "k" * 1024
    bucket.put(longest, b"long")
    (found,) = place(proxy, "kkk*").listing()
    assert read(proxy, whole(found)) == b"long"


@pytest.mark.parametrize("name", ["in//a", "in/../a", "in/tab\tb"])
def test_names_that_cannot_be_read(bucket: Any, proxy: S3Proxy, name: str) -> None:
    """Not left out silently; a path beside them can be read."""
    listed = (
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>{}</Key><LastModified>"
        "2026-11-21T00:00:00Z</LastModified><ETag>e</ETag><Size>1</Size></Contents></ListBucketResult>"
    )
    proxy.rule = lambda *_: Answer(200, listed.format(name.replace("\t", "&#9;")).encode())
    with pytest.raises(TidemillError, match="TM5036") as caught:
        keys(proxy, "in/*")
    assert name.split("/")[1][:3] in caught.value.got


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 25_000])
def test_reading_in_ranges(bucket: Any, proxy: S3Proxy, size: int) -> None:
    content = random.Random(size).randbytes(size)
    bucket.put("in/a", content)
    (info,) = place(proxy, "in/*").listing()
    proxy.requests.clear()
    for position in {0, 1, size // 2}:
        assert read(proxy, whole(info), 1000, position) == content[position:]
    for request in proxy.of("GET"):
        first, last = request.headers["range"].removeprefix("bytes=").split("-")
        assert int(last) - int(first) < 1000 and request.headers["if-match"] == info.etag
    split = replace(whole(info), start=0, end=min(size, 2500))
    reader = reader_of(split, options(proxy), 1000)
    assert (reader.first_bytes(10), reader.read_at(size // 2, size // 4)) == (
        content[:10],
        content[size // 2 : size // 2 + size // 4],
    )


def test_no_more_is_fetched_than_a_split_needs(bucket: Any, proxy: S3Proxy) -> None:
    bucket.put("in/a", bytes(10_000_000))
    (info,) = place(proxy, "in/*").listing()
    proxy.requests.clear()
    reader = reader_of(replace(whole(info), end=3 << 20), options(proxy))
    reader.open(0)
    assert sum(len(reader.fill()) for _ in range(3)) == 3 << 20 and len(proxy.asked("GET")) == 3
    assert len(reader.fill()) == 64 << 10, "behind the split is the rest of one row"
    reader.close()
    small = reader_of(replace(whole(info), end=info.size), options(proxy), 16 << 20)
    proxy.requests.clear()
    small.open(0)
    assert len(small.first_bytes(100)) + len(small.fill()) == 100 + info.size and len(proxy.asked("GET")) == 1


def test_small_objects_come_before_their_turn(bucket: Any, proxy: S3Proxy) -> None:
    """Beside each other, each once, and no more ahead than the window; what fails does so when it is its turn."""
    names = [f"in/{i:03d}" for i in range(80)]
    for name in names:
        bucket.put(name, name.encode() * 10)
    bucket.put("in/large", bytes(MOST_BYTES + 1))
    infos = list(place(proxy, "in/*").listing())
    proxy.rule = lambda request, forward: replace(forward(), delay=0.02)
    proxy.requests.clear()
    ahead = SmallObjects(options(proxy))
    splits = [whole(info) for info in infos]
    for split in splits:
        ahead.expect(split)
    bucket.put("in/050", b"other")
    for number, split in enumerate(splits):
        coming = ahead.take(split)
        assert (coming is None) == split.path.endswith("large")
        assert len(ahead._coming) < AHEAD
        reader = reader_of(split, options(proxy), coming=coming)
        reader.open(0)
        if number == 50:
            with pytest.raises(TidemillError, match="TM5003"):
                reader.fill()
        elif coming is not None:
            assert reader.first_bytes(6) + reader.fill() == names[number].encode() * 11
    assert len(proxy.asked("GET")) == 80


def _rules() -> dict[str, Callable[[], Any]]:
    return {
        "500": lambda: failing(2, lambda _: s3_error(500, "InternalError")),
        "503": lambda: failing(2, lambda _: s3_error(503, "SlowDown")),
        "429": lambda: failing(2, lambda _: s3_error(429, "TooManyRequests")),
        "time-out": lambda: failing(1, lambda forward: replace(forward(), delay=2.5)),
        "cut": lambda: failing(2, lambda forward: replace(forward(), cut=500)),
        "cut at once": lambda: failing(2, lambda forward: (a := forward(), replace(a, cut=len(a.body)))[1]),
        "closed": lambda: failing(2, lambda _: Answer(0, b"")),
    }


@pytest.mark.parametrize("fault", _rules())
def test_what_passes_is_tried_again(bucket: Any, proxy: S3Proxy, fault: str) -> None:
    content = random.Random(1).randbytes(5000)
    bucket.put("in/a", content)
    (info,) = place(proxy, "in/*").listing()
    proxy.rule = _rules()[fault]()
    assert read(proxy, whole(info), 2000) == content
    proxy.rule = _rules()[fault]()
    assert [f.path for f in place(proxy, "in/*").listing()] == [info.path]


def test_a_listing_that_breaks_off_goes_on_where_it_was(bucket: Any, proxy: S3Proxy) -> None:
    names = [f"in/{i:04d}" for i in range(2300)]
    bucket.put_many(names)
    spoiled: set[str] = set()

    def rule(request: Request, forward: Callable[[], Answer]) -> Answer:
        answer = forward()
        if request.path in spoiled:
            return answer
        spoiled.add(request.path)
        return replace(answer, cut=len(answer.body) // 2)

    proxy.rule = rule
    assert keys(proxy, "in/*") == names


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        (s3_error(500, "InternalError"), "TM5033"),
        (s3_error(503, "SlowDown"), "TM5033"),
        (Answer(200, b"", delay=1.0), "TM5033"),
        (s3_error(403, "AccessDenied"), "TM5030"),
        (s3_error(403, "SignatureDoesNotMatch"), "TM5030"),
        (s3_error(401, "Unauthorized"), "TM5030"),
        (s3_error(404, "NoSuchBucket"), "TM5031"),
        (s3_error(400, "AuthorizationHeaderMalformed"), "TM5032"),
        (s3_error(301, "PermanentRedirect"), "TM5032"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.status}-{value.delay}",
)
def test_what_does_not_pass_is_a_numbered_error(bucket: Any, proxy: S3Proxy, answer: Answer, number: str) -> None:
    """Of listing and of reading, and without anything secret."""
    bucket.put("in/a", b"12345")
    (info,) = place(proxy, "in/*").listing()
    proxy.rule = lambda *_: answer
    patience = options(proxy, maxretries="1", requesttimeout="0.3")
    for action in (
        lambda: list(location_of("s3://objects/in/*", patience).listing()),
        lambda: list(location_of("s3://objects/in/a", patience).listing()),
        lambda: reader_of(whole(info), patience).fill(),
    ):
        with pytest.raises(TidemillError) as caught:
            action()
        error = caught.value
        assert error.number == number and "s3://objects/in" in error.got
        assert SECRET not in str(error) and "KEYKEY" not in str(error) and error.__cause__ is None


def test_endless_faults_end(bucket: Any, proxy: S3Proxy) -> None:
    bucket.put("in/a", bytes(5000))
    (info,) = place(proxy, "in/*").listing()
    proxy.rule = lambda request, forward: replace(forward(), cut=100)
    with pytest.raises(TidemillError, match="TM5033"):
        read(proxy, whole(info))
    proxy.close()
    with pytest.raises(TidemillError, match="TM5033"):
        keys(proxy, "in/*")


def test_changed_or_deleted_between_list_and_read(bucket: Any, proxy: S3Proxy) -> None:
    """Also with the same size; also while it is being read."""
    bucket.put("in/a", b"a" * 5000)
    (info,) = place(proxy, "in/*").listing()
    reader = reader_of(whole(info), options(proxy), 1000)
    reader.open(0)
    assert reader.fill() == b"a" * 1000
    bucket.put("in/a", b"b" * 5000)
    with pytest.raises(TidemillError, match="TM5003") as caught:
        while reader.fill():
            pass
    assert caught.value.got.startswith("s3://objects/in/a")
    reader.close()
    with pytest.raises(TidemillError, match="TM5003"):
        read(proxy, whole(info))
    with pytest.raises(TidemillError, match="TM5003"):
        read(proxy, replace(whole(info), etag="", modified=info.modified - 5 * 10**9))
    bucket.delete("in/a")
    with pytest.raises(TidemillError, match="TM5001") as caught:
        read(proxy, whole(info))
    assert caught.value.got == "s3://objects/in/a"
    with pytest.raises(TidemillError, match="TM5001"):
        keys(proxy, "in/a")


def test_a_store_that_ignores_the_condition_is_found_out(bucket: Any, proxy: S3Proxy) -> None:
    bucket.put("in/a", b"a" * 50)
    (info,) = place(proxy, "in/*").listing()

    def ignoring(request: Request, forward: Callable[[], Answer]) -> Answer:
        assert request.headers["if-match"] == info.etag
        return Answer(
            206,
            b"b" * 50,
            {"ETag": '"other"', "Content-Range": "bytes 0-49/50", "Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT"},
        )

    proxy.rule = ignoring
    with pytest.raises(TidemillError, match="TM5003"):
        read(proxy, whole(info))


@pytest.mark.parametrize("mode", [{}, {"readmode": "async", "buffersize": "1000", "maxconcurrentreads": "4"}])
def test_both_modes_of_reading_under_faults(bucket: Any, proxy: S3Proxy, mode: dict[str, str]) -> None:
    content = random.Random(2).randbytes(20_000)
    bucket.put("in/a", content)
    (info,) = place(proxy, "in/*").listing()
    chance = random.Random(3)
    proxy.rule = lambda request, forward: (
        s3_error(503, "SlowDown") if chance.random() < 0.2 else replace(forward(), cut=7 * (chance.random() < 0.2))
    )
    given = options(proxy, maxretries="20", **mode)
    source = file_bytes(reader_of(whole(info), given, 1000), info.path, info.size, info.size, given)
    source.open(0)
    parts = []
    while not source.ended:
        parts.append(bytes(source.fill()))
    source.close()
    assert b"".join(parts) == content


def test_formats_without_a_mill(bucket: Any, proxy: S3Proxy) -> None:
    table = pa.table({"a": list(range(50_000)), "b": [str(i % 7) for i in range(50_000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=9000)
    bucket.put("in/t.parquet", sink.getvalue().to_pybytes())
    bucket.put("in/t.csv", b"a,b\n1,x\n2,y\n")
    given = {k: v for k, v in options(proxy).items() if k != "maxretries"}
    found = tidemill.formats.open("parquet", "a BIGINT, b STRING", **given).read("s3://objects/in/t.parquet")
    assert found.to_pydict() == table.to_pydict()
    csv = tidemill.formats.open("csv", "a INT, b STRING", header=True, **given).read("s3://objects/in/t.csv")
    assert csv.to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    schema = tidemill.formats.infer_schema("parquet", "s3://objects/in/t.parquet", **given)
    assert schema.to_ddl() == "`a` bigint, `b` string"


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ({"awsaccesskey": "k"}, "'k'|\\*\\*\\*"),
        ({"awssecretkey": SECRET}, "\\*\\*\\*"),
        ({"endpoint": f"http://user:{SECRET}@host"}, "http://host"),
        ({"endpoint": "host:80"}, ""),
        ({"allowhttp": "yes"}, "'yes'"),
        ({"requesttimeout": "0"}, "'0'"),
        ({"maxretries": "-1"}, "'-1'"),
        ({"recursivefilelookup": "maybe"}, "'maybe'"),
        ({"pathglobfilter": "a/*"}, "'a/\\*'"),
        ({"modifiedafter": "yesterday"}, "'yesterday'"),
    ],
)
def test_bad_options(given: dict[str, str], got: str) -> None:
    with pytest.raises(TidemillError, match=f"TM4003(.|\n)*got: .*({got})") as caught:
        location_of("s3://bucket/x", given)
    assert SECRET not in str(caught.value)


def test_options_that_are_not_about_the_path() -> None:
    for path, given in (("/data/x", {"region": "eu-west-1"}), ("gs://bucket/x", {"awsaccesskey": "k"})):
        with pytest.raises(TidemillError, match="TM4003"):
            location_of(path, given)


def test_plain_http_must_be_allowed(bucket: Any, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.put("in/a")
    given = {k: v for k, v in options(proxy).items() if k != "allowhttp"}
    for unset in (given, {k: v for k, v in given.items() if k != "endpoint"}):
        with pytest.raises(TidemillError, match="TM5034"):
            list(location_of("s3://objects/in/*", unset).listing())
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert len(list(location_of("s3://objects/in/*", given).listing())) == 1
    assert len(list(location_of("s3://objects/in/*", {}).listing())) == 1, "everything is in the environment"


@pytest.mark.parametrize("path", ["s3://", "s3:///key", f"s3://user:{SECRET}@bucket/x", f"s3://{SECRET}@bucket/x"])
def test_urls_without_a_bucket_or_with_a_user(path: str) -> None:
    with pytest.raises(TidemillError, match="TM5002") as caught:
        location_of(path, {})
    assert SECRET not in str(caught.value)


def test_nothing_secret_is_shown(proxy: S3Proxy) -> None:
    shown = repr(place(proxy, "in/*"))
    assert SECRET not in shown and "KEYKEY" not in shown and proxy.url in shown
