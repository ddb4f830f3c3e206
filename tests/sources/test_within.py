"""Where tables may have their files: paths, globs, links, URLs and streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.errors import TidemillError
from tidemill.sources.locations.allowed_paths import AllowedPaths


def refused(within: AllowedPaths, path: str, **options: str) -> bool:
    try:
        within.check("t", {"path": path, **options})
    except TidemillError as error:
        assert error.number == "TM5045" and "table t" in error.got
        return True
    return False


@pytest.fixture
def places(tmp_path: Path) -> Path:
    for name in ("in/a", "in2", "out"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "in" / "x.csv").touch()
    (tmp_path / "out" / "x.csv").touch()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "file").symlink_to(tmp_path / "out" / "x.csv")
    (tmp_path / "by").symlink_to(tmp_path / "in")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "within"),
    [
        ("in", True),
        ("in/", True),
        ("in/*.csv", True),
        ("in/a/**/*.csv", True),
        ("in/none/x.csv", True),
        ("in/{a,b}/*.csv", True),
        ("by/*.csv", True),
        ("file:in/x.csv", True),
        ("in2", False),
        ("in*/*.csv", False),
        ("{in,out}/*.csv", False),
        ("in/../out/x.csv", False),
        ("in/a/../../out/*", False),
        ("in/link/*.csv", False),
        ("in/file", False),
        ("*", False),
    ],
)
def test_local_paths(places: Path, path: str, within: bool) -> None:
    text = f"file:{places}/{path[5:]}" if path.startswith("file:") else f"{places}/{path}"
    for allowed in (f"{places}/in", f"/none, {places}/by/ ,s3://b", f"file:{places}/in"):
        assert refused(AllowedPaths(allowed), text) is not within
    assert not refused(AllowedPaths(), text)
    assert not refused(AllowedPaths("/"), text)


@pytest.mark.parametrize(
    ("path", "within"),
    [
        ("s3://b/in/*.csv", True),
        ("s3a://b/in/*.csv", True),
        ("s3://b/in", True),
        ("s3://b/in/{x,y}*/**", True),
        ("s3://b/in2/x.csv", False),
        ("s3://b/in*/x.csv", False),
        ("s3://b/{in,out}/x.csv", False),
        ("s3://bb/in/x.csv", False),
        ("gs://b/in/x.csv", False),
        ("/data/x.csv", False),
        ("tcp+listen://127.0.0.1:5000", True),
        ("tcp+listen://127.0.0.1:5000,tcp://feed:7000", False),
        ("tcp://good:7000", True),
        ("tcp://goodness:7000", False),
        ("stdin://", False),
        ("zip:///data/a.zip", True),
        ("zip:///data/../etc/a.zip", False),
        ("ingest://", True),
        ("generator://", True),
        ("TCP+LISTEN://127.0.0.1:1", True),
        ("unix:///in/s", True),
        ("unix:///in/%2e%2e/out/s", False),
        ("unix:///in/.\t./out/s", False),
        ("unix+listen:///in/s", False),
    ],
)
def test_urls(path: str, within: bool) -> None:
    allowed = "s3://b/in/, tcp+listen://,tcp://good:7000,zip:///data,unix:///in"
    assert refused(AllowedPaths(allowed), path) is not within
    assert not refused(AllowedPaths(), path)


def test_archives_and_files_behind_links(places: Path) -> None:
    within = AllowedPaths(str(places / "in"))
    path = str(places / "in")
    assert not refused(within, path, sourcearchivedir=str(places / "in" / "_old"))
    assert refused(within, path, sourcearchivedir=str(places / "old"))
    assert refused(within, path, sourcearchivedir=f"{path}/x*/../../out"), "it is no glob"
    assert not refused(within, path, sourcearchivedir=f"{path}/{{x")
    assert within.has_file(f"{path}/x.csv") and within.has_file(f"{places}/by/x.csv")
    assert not within.has_file(f"{path}/file") and not within.has_file(f"{path}/link/x.csv")
    assert AllowedPaths().has_file(f"{path}/file")


def test_servers() -> None:
    within = AllowedPaths("s3://b/in,http://127.0.0.1:9000,https://sqs.eu-central-1.amazonaws.com/1")
    assert not refused(within, "s3://b/in/*", endpoint="http://127.0.0.1:9000")
    assert refused(within, "s3://b/in/*", endpoint="http://127.0.0.1:90001")
    assert not refused(within, "s3://b/in/*", queueurl="https://sqs.eu-central-1.amazonaws.com/1/q")
    assert refused(within, "s3://b/in/*", queueurl="https://sqs.eu-central-1.amazonaws.com/2/q")
    assert refused(within, "s3://b/in/*", queueendpoint="http://elsewhere")


@pytest.mark.parametrize("allowed", [",", " ", "file://", "/in,file://"])
def test_texts_that_are_not_understood(allowed: str) -> None:
    with pytest.raises(TidemillError, match="TM5046"):
        AllowedPaths(allowed)


def test_links_to_sockets(places: Path) -> None:
    within = AllowedPaths(f"unix://{places}/in")
    assert not refused(within, f"unix://{places}/in/s") and refused(within, f"unix://{places}/in/link/s")
