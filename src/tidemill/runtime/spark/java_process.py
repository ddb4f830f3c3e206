"""Java's process for Spark, which can be started while this one still imports what it needs.

PySpark starts Java by two shell scripts, and another Java that writes down the command. Where nothing but Tidemill's
settings decides what the command is, it is known here without them (:func:`command`): a command line begins Java
(:func:`begin`) as soon as its arguments are parsed, before it imports PySpark, and the session connects to it
(:func:`connect`). In all other cases PySpark starts Java itself.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidemill.runtime.spark import early_daemon
from tidemill.runtime.spark.java_archive import class_path, java_options, java_program, spark_home

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
JAVA_NEEDED = 17
BRIEF = "-XX:TieredStopAtLevel=1"
"""For commands in which Java only plans and schedules: it compiles quickly, not again for speed, and without counting
calls for that. This is half of the processor time that Java takes until the first epoch."""

_RETURN_MEMORY = "-XX:G1PeriodicGCInterval=60000"
"""Java collects garbage once a minute when it has not done so, and gives back the memory of its heap."""
_MEMORY, _DEFAULT_MEMORY = "spark.driver.memory", "1g"
_LOCAL = re.compile(r"local(\[.*\])?")
_OF_THE_LAUNCHER = re.compile(
    r"spark\.(jars|files|archives|submit|yarn|kubernetes|kerberos|remote|connect|api\.mode|home)\b.*"
    r"|spark\.driver\.(defaultJavaOptions|extraClassPath|extraLibraryPath|userClassPathFirst)"
)
"""Settings with which the scripts and Spark's launcher do more than :func:`command`."""
_SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable whose options the launcher puts before its own."""
_CHANGES_THE_COMMAND = (
    *("SPARK_CONF_DIR", "SPARK_DRIVER_MEMORY", "SPARK_MEM"),
    *("SPARK_DIST_CLASSPATH", "SPARK_PREPEND_CLASSES", "SPARK_TESTING", "SPARK_SQL_TESTING", "SPARK_DAEMON_MEMORY"),
    *("SPARK_CONNECT_MODE", "SPARK_REMOTE", "SPARK_PRINT_LAUNCH_COMMAND", "SPARK_NO_DAEMONIZE"),
    *("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
"""Other environment variables that the scripts and the launcher read."""
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
_MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""What Spark's launcher adds. A test compares the command with that of the launcher."""


def driver_java_options(given: str) -> str:
    """The options of the driver's Java: Tidemill's own, then those of the user."""
    log4j = Path(__file__).with_name("log4j2.properties")
    options = f"{_RETURN_MEMORY} -Dlog4j2.configurationFile=file:{log4j} -Dlog4j.configurationFile=file:{log4j}"
    archive = "" if "ArchiveClassesAtExit" in given else java_options()
    return " ".join(part for part in (options, archive, given) if part)


def released_version(java: Path) -> int | None:
    """The major version of a Java by the file ``release`` beside it; None where that does not say."""
    with suppress(OSError, UnicodeDecodeError):
        text = (java.resolve().parent.parent / "release").read_text()
        match = re.search(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', text, re.MULTILINE)
        if match is not None:
            return int(match[1]) if match[1] != "1" else int(match[2] or 0)
    return None


def command(conf: Mapping[str, str], ml: bool = True) -> list[str] | None:
    """The command by which Spark's scripts would start Java for the driver of a local master.

    Parameters
    ----------
    conf : mapping
        Settings of Spark, as they would be given to ``spark-submit``.
    ml : bool
        Whether programs may use Spark's machine learning.

    Returns
    -------
    list of str or None
        None where something else than the settings and ``SPARK_SUBMIT_OPTS`` may change it: a file in Spark's folder
        ``conf``, other environment variables, or settings about files for Spark to fetch.
    """
    java, home = java_program(), spark_home()
    if java is None or os.name != "posix" or (home / "conf").exists() or not (home / "jars").is_dir():
        return None
    if any(os.environ.get(name) for name in _CHANGES_THE_COMMAND) or not _LOCAL.fullmatch(conf.get("spark.master", "")):
        return None
    options, memory = conf.get(JAVA_OPTIONS, ""), conf.get(_MEMORY, _DEFAULT_MEMORY)
    of_all = os.environ.get(_SUBMIT_OPTIONS, "")
    if any(_OF_THE_LAUNCHER.fullmatch(name) for name in conf) or re.search(r"[\\']|-Xmx", f"{of_all} {options}"):
        return None
    try:
        before, given = shlex.split(of_all), shlex.split(options)
    except ValueError:
        return None
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    return [
        *(str(java.resolve()), "-cp", class_path(ml)),
        *(*before, f"-Xmx{memory}", *given, *_MODULES),
        *("org.apache.spark.deploy.SparkSubmit", *settings, "pyspark-shell"),
    ]


class _Begun:
    """A process of Java that nothing is connected to yet. It is killed when this process ends before that.

    Parameters
    ----------
    workers : bool
        Whether the worker daemon may be begun, too.
    """

    def __init__(self, words: list[str], workers: bool) -> None:
        self._directory = tempfile.mkdtemp(prefix="tidemill-java-")
        self._place = Path(self._directory) / "place"
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONNECT_MODE": "0",
            "PYTHONHASHSEED": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._place),
        }
        self._environment = environment
        self._daemon = Path(self._directory) / "daemon" if workers else None
        of_daemon = {} if self._daemon is None else early_daemon.variables(self._daemon)
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, env={**environment, **of_daemon}, preexec_fn=_ignore_sigint
            )  # Java ends with its standard input
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        atexit.register(self.end)

    def end(self) -> None:
        """Kill the process."""
        atexit.unregister(self.end)
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def begin_workers(self) -> None:
        """Begin the worker daemon, if it may be."""
        global _daemon
        if self._daemon is not None:
            with suppress(OSError):  # Spark starts one
                seed = os.environ.get("PYTHONHASHSEED", "0")  # as PySpark gives it to workers
                process = early_daemon.begin(self._daemon, {**self._environment, "PYTHONHASHSEED": seed})
                _daemon = process, self._daemon

    def gateway(self) -> Any:
        """PySpark's gateway to the process, when it is ready; None when it has ended."""
        while not self._place.is_file():
            if self._process.poll() is not None:
                self.end()
                return None
            time.sleep(0.005)
        told = self._place.read_bytes()
        port, length = int.from_bytes(told[:4], "big"), int.from_bytes(told[4:8], "big")
        from pyspark.java_gateway import launch_gateway

        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = told[8 : 8 + length].decode()
        try:
            gateway = launch_gateway()
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self._process
        atexit.unregister(self.end)
        if self._daemon is None:
            shutil.rmtree(self._directory, ignore_errors=True)
        else:  # the worker daemon removes it when Spark has found it there
            self._place.unlink()
            atexit.register(shutil.rmtree, self._directory, ignore_errors=True)
        return gateway


def _ignore_sigint() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process gets it, too, and finishes its epoch first


_begun: _Begun | None = None
_daemon: tuple[subprocess.Popen[bytes], Path] | None = None
"""The worker daemon, and where Spark is given it; it ends with Java."""


def begin(conf: Mapping[str, str], ml: bool = True, workers: bool = False) -> None:
    """Start Java for a session with these settings, unless it runs or that is PySpark's to do; does not wait for it.

    Parameters
    ----------
    conf : mapping
        With ``spark.master``. Of other settings Java's own count; a session gives all of them again.
    ml : bool
        As for :func:`command`.
    workers : bool
        Whether tasks in Python come soon.
    """
    global _begun
    java = java_program()
    if _begun is not None or _is_connected() or java is None or find_spec("pyspark") is None:
        return
    if (released_version(java) or 0) < JAVA_NEEDED:  # the session says what is wrong with it, or asks Java itself
        return
    words = command({**conf, JAVA_OPTIONS: driver_java_options(conf.get(JAVA_OPTIONS, ""))}, ml)
    if words is not None:
        with suppress(OSError):
            _begun = _Begun(words, workers and early_daemon.is_usual(conf))


def _is_connected() -> bool:
    """Whether PySpark has a Java; it is not imported to find that out."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


def connect(conf: Mapping[str, str], workers: bool = False) -> None:
    """Let PySpark use the process that was begun, or one that is begun now. If there is none PySpark starts one.

    With ``workers`` the worker daemon begins, too, while Java is still starting.
    """
    global _begun
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        if _daemon is not None:
            early_daemon.needed_again(_daemon[1])
        return
    begin(conf, workers=workers)
    begun, _begun = _begun, None
    if begun is not None and workers:
        begun.begin_workers()
    gateway = None if begun is None else begun.gateway()
    if gateway is not None:
        SparkContext._ensure_initialized(gateway=gateway)


def end_waiting() -> None:
    """End the worker daemon that was begun, if it is not Spark's yet: Spark would not stop before it has one."""
    if _daemon is not None:
        early_daemon.end(*_daemon)
