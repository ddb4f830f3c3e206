"""Java's process: its command is that of Spark's own launcher, and none is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from tidemill.runtime.spark import java_process
from tidemill.runtime.spark.java_process import JAVA_OPTIONS, command, driver_java_options, released_version

_HOME = Path(pyspark.__file__).resolve().parent
_CONF = {
    "spark.master": "local[*]",
    "spark.driver.memory": "700m",
    JAVA_OPTIONS: driver_java_options('-Da="b c" -XX:TieredStopAtLevel=1'),
    "spark.sql.shuffle.partitions": "3",
}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that changes nothing."""
    for name in (java_process._SUBMIT_OPTIONS, *java_process._CHANGES_THE_COMMAND):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("conf", [_CONF, {"spark.master": "local"}, {"spark.master": "local[2,4]", JAVA_OPTIONS: ""}])
@pytest.mark.parametrize("of_all", ["", '-XX:+UseSerialGC -De="f  g"'])
def test_the_command_is_that_of_the_launcher(
    conf: dict[str, str], of_all: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", of_all)
    given = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    java = ["java", "-cp", f"{_HOME}/jars/*", "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    environment = {**os.environ, "SPARK_HOME": str(_HOME), "SPARK_SCALA_VERSION": "2.13", "_SPARK_CMD_USAGE": ""}
    done = subprocess.run([*java, *given, "pyspark-shell"], capture_output=True, text=True, env=environment)
    words = done.stdout.lstrip("\0\n").rstrip("\0").split("\0")
    ours = command(conf)
    assert ours is not None
    path, paths = (w[w.index("-cp") + 1].split(":") for w in (ours, words))
    assert path[:2] == paths[:2]
    assert paths[2:] == [f"{_HOME}/jars/*"]
    jars = {str(jar) for jar in (_HOME / "jars").glob("*.jar")}
    assert set(path[1:]) == jars
    assert len(path) == len(jars) + 1
    assert _ordered(ours) == _ordered(words)


def _ordered(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before Spark's class, and those after it, in which the launcher orders the settings."""
    at, path = words.index("org.apache.spark.deploy.SparkSubmit"), words.index("-cp") + 1
    return words[:path] + words[path + 1 : at], sorted(words[at:])


def test_without_machine_learning() -> None:
    """A class path for which Java takes the same archive: the other one begins with it."""
    with_it, without = (command(_CONF, ml=ml) for ml in (True, False))
    assert with_it is not None
    assert without is not None
    differ = [(a, b) for a, b in zip(with_it, without, strict=True) if a != b]
    assert len(differ) == 1
    assert differ[0][0].startswith(differ[0][1] + ":")
    assert [Path(jar).name.partition("_")[0] for jar in differ[0][0][len(differ[0][1]) + 1 :].split(":")] == [
        "spark-mllib"
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.master", "local-cluster[2,1,1024]"),
        ("spark.master", "spark://host:7077"),
        ("spark.jars", "a.jar"),
        ("spark.jars.packages", "a:b:1"),
        ("spark.submit.pyFiles", "a.py"),
        ("spark.driver.extraClassPath", "/a"),
        ("spark.driver.defaultJavaOptions", "-Da=b"),
        (JAVA_OPTIONS, "-Xmx3g"),
        (JAVA_OPTIONS, "-Da='b c'"),
        (JAVA_OPTIONS, '-Da="b'),
    ],
)
def test_left_to_spark(name: str, value: str) -> None:
    assert command(_CONF) is not None
    assert command({**_CONF, name: value}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPARK_CONF_DIR", "x"),
        ("PYSPARK_SUBMIT_ARGS", "x"),
        ("HADOOP_CONF_DIR", "x"),
        ("SPARK_SUBMIT_OPTS", "-Da='b c'"),
        ("SPARK_SUBMIT_OPTS", '-Da="b'),
        ("SPARK_SUBMIT_OPTS", "-Xmx3g"),
    ],
)
def test_environments_are_left_to_spark(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert command(_CONF) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('JAVA_VERSION="17.0.15"\n', 17),
        ('A="b"\nJAVA_VERSION="21"\n', 21),
        ('JAVA_VERSION="1.8.0_432"\n', 8),
        ("", None),
    ],
)
def test_version_by_the_file_beside_it(text: str, version: int | None, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch()
    assert released_version(java) is None
    (tmp_path / "release").write_text(text)
    assert released_version(java) == version


_BEGINS = """
import sys
from tidemill.runtime.spark import java_process
java_process.begin({"spark.master": "local[1]"})
print(java_process._begun._process.pid, flush=True)
assert not any(name.startswith(("pyspark", "py4j")) for name in sys.modules)
"""
_USES = """
from pyspark import SparkContext
from tidemill.config import Settings
from tidemill.runtime.spark.session import create_session, stop_session
begun = java_process._begun._process
spark = create_session(Settings(master="local[1]", mode="jobs", spark_conf={"spark.sql.shuffle.partitions": "3"}))
assert SparkContext._gateway.proc is begun and java_process._begun is None
names = "spark.sql.shuffle.partitions", "spark.master"
print(spark.sql("SELECT 1 + 1").collect()[0][0], *map(spark.conf.get, names))
java_process.begin({"spark.master": "local[1]"})
assert java_process._begun is None, "there is one already"
stop_session(spark)
"""


@pytest.mark.parametrize(
    "ends", ["", "raise SystemExit(3)", "import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)"]
)
def test_no_process_is_left(ends: str) -> None:
    done = subprocess.run([sys.executable, "-c", _BEGINS + ends], capture_output=True, text=True)
    assert _ended(int(done.stdout.split()[0])), done.stderr


@pytest.mark.slow
def test_a_session_uses_the_process(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _BEGINS + _USES], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    pid, *rest = done.stdout.split()
    assert rest == ["2", "3", "local[1,4]"]
    assert _ended(int(pid))


def _ended(pid: int) -> bool:
    """Whether a process ends within a minute."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.05)
    return False


def test_java_that_ends_at_once_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = java_process._Begun(["false"], workers=False)
    assert begun.gateway() is None


CTRL_C = """
from py4j.java_gateway import GatewayClient
from tidemill.config import Settings
from tidemill.runtime.spark import session

class Interrupted:
    socket = None

    def send_command(self, command):
        raise KeyboardInterrupt

class Client(GatewayClient):
    def _get_connection(self):
        return Interrupted()

session.connect = lambda *_: Client().send_command("c")
try:
    session.create_session(Settings(master="local[1]"))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_py4j_prints_no_trace_when_the_start_is_interrupted() -> None:
    done = subprocess.run([sys.executable, "-c", CTRL_C], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
