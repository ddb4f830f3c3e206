"""Files that were read are deleted or moved, those that are not what was read are left; each twice, each broken off."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest

from s3_proxy import Answer, Request, S3Proxy, failing, s3_error
from tidemill.errors import TidemillError
from tidemill.sources.cleaning import files as clean_files
from tidemill.sources.cleaning.files import clean, suffixed
from tidemill.sources.cleaning.options import CleanSource, check_clean, parse_clean
from tidemill.sources.file_info import FileInfo
from tidemill.sources.files import file_info
from tidemill.sources.locations.extent import Extent
from tidemill.sources.locations.location import Location, location_of
from tidemill.sources.objects import listing as object_listing
from tidemill.sources.objects.listing import object_versions

DELETE = CleanSource()


def written(path: Path, text: str = "x") -> FileInfo:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    info = file_info(str(path))
    assert info is not None
    return info


def below(directory: Path) -> dict[str, str]:
    return {str(p.relative_to(directory)): p.read_text() for p in sorted(directory.rglob("*")) if p.is_file()}


# -- options ----------------------------------------------------------------------------------------


def test_options() -> None:
    assert parse_clean({}) is parse_clean({"cleansource": "OFF"}) is None
    assert parse_clean({"cleansource": "Delete"}) == CleanSource("", 0)
    given = {"cleansource": "archive", "sourcearchivedir": "/a/b/", "cleansource.retentionduration": "interval 2 days"}
    assert parse_clean(given) == CleanSource("/a/b", 2 * 86_400_000)
    assert parse_clean({**given, "sourcearchivedir": "s3://B/c/"}) == CleanSource("s3://B/c", 2 * 86_400_000)
    for text, milliseconds in (("90s", 90_000), ("1.5 hours", 5_400_000), ("500 ms", 500), ("1 week", 604_800_000)):
        found = parse_clean({"cleansource": "delete", "cleansource.retentionduration": text})
        assert found == CleanSource("", milliseconds)


@pytest.mark.parametrize(
    "given",
    [
        {"cleansource": "yes"},
        {"cleansource": "archive"},
        {"cleansource": "archive", "sourcearchivedir": "relative/dir"},
        {"cleansource": "delete", "sourcearchivedir": "/a"},
        {"cleansource": "delete", "cleansource.retentionduration": "soon"},
        {"cleansource": "off", "cleansource.retentionduration": "-1 days"},
    ],
)
def test_bad_options(given: dict[str, str]) -> None:
    with pytest.raises(TidemillError, match="TM4003"):
        parse_clean(given)


def refused(path: str, **given: str) -> str | None:
    options = {"cleansource": "archive", **given}
    try:
        check_clean(options, location_of(path, options))
    except TidemillError as error:
        return error.number
    return None


@pytest.mark.parametrize(
    ("path", "archive", "number"),
    [
        ("/data/in", "/data/in", "TM5081"),
        ("/data/in", "/data/in/done", None),
        ("/data/in/*.csv", "/data/in/done", None),
        ("/data/in/**/*.csv", "/data/in/done", "TM5081"),
        ("/data/in/**/*.csv", "/data/in/_done", None),
        ("/data/in/**/*.csv", "/data/done", None),
        ("/data/{in,done}/*.csv", "/data/done", "TM5081"),
        ("/data/*/x/*.csv", "/data/q/x", "TM5081"),
        ("/data/*/x/*.csv", "/data/q/y", None),
        ("/data/*/x/*.csv", "/data/q", "TM5081"),
        ("s3://b/in/", "s3://b/done", None),
        ("s3://b/in/**", "s3://b/in/done", "TM5081"),
        ("s3://b/*", "s3://b", "TM5081"),
        ("s3://b/in/", "s3://c/done", "TM5080"),
        ("s3://b/in/", "/data/done", "TM5080"),
        ("/data/in", "s3://b/done", "TM5080"),
    ],
)
def test_where_an_archive_may_be(path: str, archive: str, number: str | None) -> None:
    assert refused(path, sourcearchivedir=archive) == number


def test_an_archive_that_is_read_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    assert refused(str(tmp_path / "in" / "**"), sourcearchivedir=str(tmp_path / "link" / "done")) == "TM5081"
    assert refused(str(tmp_path / "link" / "**"), sourcearchivedir=str(tmp_path / "in" / "done")) == "TM5081"
    assert refused(str(tmp_path / "in"), sourcearchivedir=str(tmp_path / "in" / "done")) is None
    recursive = {"recursivefilelookup": "true"}
    assert refused(str(tmp_path / "in"), sourcearchivedir=str(tmp_path / "in" / "done"), **recursive) == "TM5081"


def test_kinds_of_tables_that_are_not_cleaned() -> None:
    for name in ("static", "allowappends"):
        assert refused("/data/in", sourcearchivedir="/a", **{name: "true"}) == "TM5080"
    with pytest.raises(TidemillError, match="TM5080"):
        check_clean({"cleansource": "delete"}, None)


@pytest.mark.parametrize(
    ("pattern", "path", "rest"),
    [
        ("/data/in", "/data/in/x.csv", "x.csv"),
        ("/data/in/x.csv", "/data/in/x.csv", "x.csv"),
        ("/data/in/*/x*.csv", "/data/in/a/x1.csv", "a/x1.csv"),
        ("/data/{a,b}/*.csv", "/data/a/x.csv", "a/x.csv"),
        ("/data/**/*.csv", "/data/q/r/x.csv", "q/r/x.csv"),
        ("s3://b/**/*.csv", "s3://b/q/r.csv", "q/r.csv"),
        ("s3://b/in/", "s3://b/in/r.csv", "r.csv"),
    ],
)
def test_what_stands_below(pattern: str, path: str, rest: str) -> None:
    extent = Extent(location_of(pattern, {}))
    assert extent.names(path, 0) and extent.below(path) == rest
    assert not extent.names(path + "/y/_z", 0)


# -- local files ------------------------------------------------------------------------------------


def test_delete(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{n}.csv", "x" * n) for n in range(1, 5)]
    (tmp_path / "2.csv").write_text("yyy")
    os.utime(tmp_path / "3.csv")
    place = location_of(str(tmp_path), {})
    for again in (False, True):
        outcome = clean(place, DELETE, files)
        assert [Path(p).name for p in outcome.cleaned] == ["1.csv", "4.csv"], again
        assert [Path(p).name for p in outcome.changed] == ["2.csv", "3.csv"]
        assert not outcome.failed and below(tmp_path) == {"2.csv": "yyy", "3.csv": "xxx"}


def test_stops_between_files(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{n}.csv") for n in range(5)]
    asked = iter([False, False, True])
    outcome = clean(location_of(str(tmp_path), {}), DELETE, files, lambda: next(asked))
    assert len(outcome.cleaned) == 2 and sorted(below(tmp_path)) == ["2.csv", "3.csv", "4.csv"]


def test_archive_keeps_paths_and_overwrites_nothing(tmp_path: Path) -> None:
    place = location_of(str(tmp_path / "in" / "**" / "*.csv.gz"), {})
    rule = CleanSource(str(tmp_path / "old"))
    (tmp_path / "old" / "a").mkdir(parents=True)
    for number in range(3):
        file = written(tmp_path / "in" / "a" / "x.csv.gz", str(number) * (number + 1))
        assert clean(place, rule, [file]).cleaned == [file.path]
        assert clean(place, rule, [file]).cleaned == [file.path], "it is gone"
    assert below(tmp_path) == {"old/a/x.csv.gz": "0", "old/a/x.1.csv.gz": "11", "old/a/x.2.csv.gz": "222"}
    assert suffixed("/a.b/x", 2) == "/a.b/x.2"


def test_links_in_an_archive_that_lead_out(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "s").symlink_to(tmp_path)
    file = written(tmp_path / "in" / "s" / "a.csv")
    outcome = clean(location_of(str(tmp_path / "in" / "*" / "*"), {}), CleanSource(str(tmp_path / "old")), [file])
    assert [e.number for e in outcome.failed.values()] == ["TM5082"] and Path(file.path).exists()


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM])
def test_archive_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Another file system (EXDEV), and one that has no links."""

    def link(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    file = written(tmp_path / "in" / "x.csv", "abc")
    written(tmp_path / "old" / "x.csv", "other")
    rule, place = CleanSource(str(tmp_path / "old")), location_of(str(tmp_path / "in"), {})
    assert clean(place, rule, [file]).cleaned == [file.path]
    assert below(tmp_path) == {"old/x.csv": "other", "old/x.1.csv": "abc"}
    moved = file_info(str(tmp_path / "old" / "x.1.csv"))
    assert moved is not None and moved.modified == file.modified


@pytest.mark.parametrize("other_system", [False, True])
def test_archive_that_broke_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_system: bool) -> None:
    """Killed when the file was there already and still here: it goes here, and is there once."""
    place, rule = location_of(str(tmp_path / "in"), {}), CleanSource(str(tmp_path / "old"))
    file = written(tmp_path / "in" / "x.csv", "abc")
    link = os.link
    if other_system:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "")))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            clean(place, rule, [file])
    assert below(tmp_path) == {"in/x.csv": "abc", "old/x.csv": "abc"}
    monkeypatch.setattr(os, "link", link)
    assert clean(place, rule, [file]).cleaned == [file.path]
    assert below(tmp_path) == {"old/x.csv": "abc"}


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the file stays behind, and others go on."""
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "")))
    copy = clean_files.shutil.copyfileobj

    def full(source: Any, target: Any, size: int) -> None:
        if "a.csv" in source.name:
            target.write(b"a")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source.name)
        copy(source, target, size)

    monkeypatch.setattr(clean_files.shutil, "copyfileobj", full)
    files = [written(tmp_path / "in" / name, name) for name in ("a.csv", "b.csv")]
    outcome = clean(location_of(str(tmp_path / "in"), {}), CleanSource(str(tmp_path / "old")), files)
    assert {Path(p).name: (e.number, "No space left" in e.got) for p, e in outcome.failed.items()} == {
        "a.csv": ("TM5082", True)
    }
    assert below(tmp_path) == {"in/a.csv": "a.csv", "old/b.csv": "b.csv"}


def test_a_directory_in_the_way(tmp_path: Path) -> None:
    written(tmp_path / "old", "a file")
    file = written(tmp_path / "in" / "x.csv")
    outcome = clean(location_of(str(tmp_path / "in"), {}), CleanSource(str(tmp_path / "old")), [file])
    assert [e.number for e in outcome.failed.values()] == ["TM5082"] and (tmp_path / "in" / "x.csv").exists()


# -- objects ----------------------------------------------------------------------------------------


@pytest.fixture
def proxy(endpoint: str) -> Iterator[S3Proxy]:
    made = S3Proxy(endpoint)
    yield made
    made.close()


@pytest.fixture
def s3(endpoint: str) -> Iterator[Any]:
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="cleaned")
    yield client
    for found in client.list_objects_v2(Bucket="cleaned").get("Contents", ()):
        client.delete_object(Bucket="cleaned", Key=found["Key"])
    client.delete_bucket(Bucket="cleaned")


def place(proxy: S3Proxy, path: str = "s3://cleaned/in/", retries: int = 0) -> Location:
    return location_of(path, {"endpoint": proxy.url, "allowhttp": "true", "maxretries": str(retries)})


def objects(s3: Any) -> dict[str, str]:
    listed = s3.list_objects_v2(Bucket="cleaned").get("Contents", ())
    return {o["Key"]: s3.get_object(Bucket="cleaned", Key=o["Key"])["Body"].read().decode() for o in listed}


def put(s3: Any, *keys: str, text: str = "x") -> None:
    for key in keys:
        s3.put_object(Bucket="cleaned", Key=key, Body=text.encode())


def test_objects_are_deleted_together(s3: Any, proxy: S3Proxy) -> None:
    keys = [f"in/{number:03d}.csv" for number in range(40)]
    put(s3, *keys)
    files = list(place(proxy).listing())
    put(s3, "in/005.csv", text="written anew")
    s3.delete_object(Bucket="cleaned", Key="in/006.csv")
    proxy.requests.clear()
    for again in (False, True):
        outcome = clean(place(proxy), DELETE, files)
        assert (len(outcome.cleaned), outcome.changed, outcome.failed) == (39, ["s3://cleaned/in/005.csv"], {})
        if not again:
            assert [r.method for r in proxy.asked()] == ["GET", "POST"], "one listing, one deletion"
    assert objects(s3) == {"in/005.csv": "written anew"}


def test_versions_of_scattered_keys(s3: Any, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of few wanted keys are not listed on; against what a client says of each."""
    put(s3, *(f"a/{number:03d}" for number in range(60)), "b/x", "b/y", "c")
    connection = place(proxy).connection
    monkeypatch.setattr(object_listing, "PAGE_KEYS", 10)
    for dense, asked in ((1, 64), (5, 2), (100, 1)):
        monkeypatch.setattr(object_listing, "_DENSE", dense)
        monkeypatch.setattr(object_listing, "_ASKED", asked)
        for wanted in (["a/000", "a/0005", "a/059", "b/x", "d"], [f"a/{n:03d}" for n in range(70)], ["0"], []):
            found = object_versions("s3://cleaned", wanted, connection)
            there = {o["Key"]: (o["Size"], o["ETag"]) for o in s3.list_objects_v2(Bucket="cleaned")["Contents"]}
            assert {k: (i.size, i.etag) for k, i in found.items()} == {k: there[k] for k in wanted if k in there}


def test_objects_are_archived(s3: Any, proxy: S3Proxy) -> None:
    where = place(proxy, "s3://cleaned/in/**/*.csv")
    rule = CleanSource("s3://cleaned/old")
    for text in ("first", "first", "second!"):
        put(s3, "in/a/x.csv", text=text)
        files = list(where.listing())
        for _ in range(2):
            assert clean(where, rule, files).cleaned == ["s3://cleaned/in/a/x.csv"]
    assert objects(s3) == {"old/a/x.csv": "first", "old/a/x.1.csv": "second!"}, "the same object is there once"


def test_large_objects_are_archived_piece_by_piece(s3: Any, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_files, "_MOST_COPIED", 3)
    put(s3, "in/x.csv", text="larger")
    assert len(clean(place(proxy), CleanSource("s3://cleaned/old"), place(proxy).listing()).cleaned) == 1
    assert objects(s3) == {"old/x.csv": "larger"}
    assert not [r for r in proxy.requests if "x-amz-copy-source" in r.headers]


@pytest.mark.parametrize("archive", [pytest.param("", marks=pytest.mark.slow), "s3://cleaned/old"])
@pytest.mark.parametrize("lost", [False, True])
def test_requests_that_fail(s3: Any, proxy: S3Proxy, archive: str, lost: bool) -> None:
    """Any one request fails, or is done and its answer lost: the next try ends it, and everything is somewhere once."""
    wanted = {f"{'old' if archive else 'in'}/{n}.csv": f"text {n}" for n in range(3)}
    for number in range(14):
        for key in objects(s3):
            s3.delete_object(Bucket="cleaned", Key=key)
        for n in range(3):
            put(s3, f"in/{n}.csv", text=f"text {n}")
        files = list(place(proxy).listing())
        numbers = count()

        def rule(request: Request, forward: Callable[[], Answer], numbers: Any = numbers, at: int = number) -> Answer:
            fails = next(numbers) == at
            answer = s3_error(403, "AccessDenied") if fails else forward()
            if fails and lost:
                forward()
            return answer

        proxy.rule = rule
        outcome = clean(place(proxy), CleanSource(archive), files)
        failed = next(numbers) > number
        assert bool(outcome.failed) == failed
        assert {e.number for e in outcome.failed.values()} <= {"TM5030"}
        proxy.rule = failing(0, lambda forward: forward())
        assert len(clean(place(proxy), CleanSource(archive), files).cleaned) == 3
        assert objects(s3) == (wanted if archive else {})
    assert not failed, "every request has failed once"


def test_an_object_that_is_written_anew_while_it_is_archived(s3: Any, proxy: S3Proxy) -> None:
    put(s3, "in/x.csv", text="read")
    files = list(place(proxy).listing())

    def rule(request: Request, forward: Callable[[], Answer]) -> Answer:
        answer = forward()
        if "x-amz-copy-source" in request.headers:
            put(s3, "in/x.csv", text="anew")
        return answer

    proxy.rule = rule
    outcome = clean(place(proxy), CleanSource("s3://cleaned/old"), files)
    assert (outcome.cleaned, outcome.changed) == ([], ["s3://cleaned/in/x.csv"])
    assert objects(s3) == {"in/x.csv": "anew", "old/x.csv": "read"}
