"""The archive of Java's classes: where it is, that sessions use it, and that nothing depends on it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tidemill.runtime.spark.java_archive import archive_path, java_options
from tidemill.runtime.spark.java_process import driver_java_options
from tidemill.runtime.spark.make_java_archive import make_archive

_JAVA = shutil.which("java") or "java"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory whose name has a blank."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "the cache"


def test_each_java_has_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = archive_path()
    assert path is not None
    assert path.parent == cache / "tidemill"
    other = tmp_path / "other" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "other"))
    assert archive_path() not in (path, None)
    other.unlink()
    assert archive_path() is None
    assert make_archive() is None
    assert java_options() == ""


def test_used_when_there(cache: Path) -> None:
    assert java_options() == ""
    assert "SharedArchiveFile" not in driver_java_options("")
    path = archive_path()
    assert path is not None
    path.parent.mkdir(parents=True)
    path.touch()
    assert shlex.split(java_options())[0] == f"-XX:SharedArchiveFile={path}"
    assert make_archive() == path, "it is made once"
    words = shlex.split(driver_java_options("-Da=b"))
    assert f"-XX:SharedArchiveFile={path}" in words
    assert words[-1] == "-Da=b", "what the user gives comes last, and so counts"
    assert any(w.startswith("-Dlog4j2.configurationFile=") for w in words)
    assert "SharedArchiveFile" not in driver_java_options("-XX:ArchiveClassesAtExit=x")


def test_java_starts_silently_with_an_archive_that_is_none(cache: Path) -> None:
    path = archive_path()
    assert path is not None
    path.parent.mkdir(parents=True)
    for content in (b"", b"no archive", bytes(100_000)):
        path.write_bytes(content)
        done = subprocess.run([_JAVA, *shlex.split(java_options()), "--version"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert "openjdk" in done.stdout.lower()
        assert "warning" not in done.stdout


def test_what_java_recorded_is_shared(cache: Path) -> None:
    path = archive_path()
    assert path is not None
    path.parent.mkdir(parents=True)
    java = [_JAVA, "-cp", str(next((Path(pyspark.__file__).parent / "jars").glob("spark-launcher*.jar")))]
    recorded = [*java, f"-XX:ArchiveClassesAtExit={path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xshare:auto"]
    main = "org.apache.spark.launcher.Main"
    subprocess.run([*recorded, main], capture_output=True)
    assert path.exists()
    log = ["-Xlog:class+load:file=" + str(cache / "loaded")]
    subprocess.run([*java, *shlex.split(java_options()), *log, main], capture_output=True)
    assert f"{main} source: shared objects file (top)" in (cache / "loaded").read_text()


def test_no_archive_when_the_process_that_makes_it_fails(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert make_archive() is None
    path = archive_path()
    assert path is not None
    assert list(path.parent.iterdir()) == []
    cache_of_nobody = cache / "file"
    cache_of_nobody.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_of_nobody))
    assert make_archive() is None
    assert java_options() == ""
