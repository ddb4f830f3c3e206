"""Spark sessions set up for many small jobs, and the checks that a machine can run them."""

from __future__ import annotations

import atexit
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tidemill.config import AUTO, JOBS, Settings
from tidemill.errors import TidemillError
from tidemill.plan.catalyst.reach import SUBSTITUTE
from tidemill.runtime.spark.java_archive import java_program, spark_home
from tidemill.runtime.spark.java_process import (
    JAVA_NEEDED,
    JAVA_OPTIONS,
    connect,
    driver_java_options,
    end_waiting,
    released_version,
)
from tidemill.zones import UTC

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:, *(\d+))?\])?")
TASK_CPUS = "spark.task.cpus"
RESIDENT_TASKS = "spark.tidemill.residentTasks"
_MOST_RESIDENT = 8
"""Tasks that stay unless more are asked for: each is a process, and small epochs run in one of them."""
_WAREHOUSE = "spark.sql.warehouse.dir"

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "tidemill.runtime.workers.worker_daemon",
    "spark.scheduler.mode": "FAIR",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
    SUBSTITUTE: "false",  # else a statement of a client could read environment variables
    "spark.log.structuredLogging.enabled": "false",
}


def check_java() -> int:
    """The major version of the Java that Spark will use.

    Raises
    ------
    TidemillError
        TM6001 when there is no Java, TM6002 when it is too old.
    """
    home, java = os.environ.get("JAVA_HOME"), java_program()
    hint = "install a JDK 17 or newer, e.g. `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME"
    if java is None:
        raise TidemillError(
            "TM6001", "Java is missing, and Spark needs it", got=f"JAVA_HOME={home or 'not set'}", hint=hint
        )
    major = released_version(java) if os.access(java, os.X_OK) else None
    if major is None:
        major = _asked_version(java, hint)
    if major < JAVA_NEEDED:
        raise TidemillError("TM6002", "Java is too old for Spark", got=f"{java} is Java {major}", hint=hint)
    return major


def _asked_version(java: Path, hint: str) -> int:
    """The major version that a Java tells. TM6001 when it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise TidemillError("TM6001", "Java does not run", got=f"{java}: {error.strerror}", hint=hint) from error
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        raise TidemillError("TM6001", "Java does not run", got=(answer.stderr or str(java)).strip(), hint=hint)
    return int(match[1]) if match[1] != "1" else int(match[2] or 0)


def full_master(master: str, more_slots: int = 0) -> str:
    """The URL of a ``local`` master with retries and more slots; another one as it is.

    ``local`` masters run a task once; a killed Python worker must be retried there too.
    """
    match = _LOCAL.fullmatch(master.strip())
    if match is None:
        return master
    slots = str((local_slots(master) or 1) + more_slots) if more_slots else match[1] or "1"
    return f"local[{slots},{match[2] or 4}]"


def local_slots(master: str) -> int | None:
    """How many tasks a ``local`` master runs at a time; None for another one."""
    match = _LOCAL.fullmatch(master.strip())
    if match is None:
        return None
    return len(os.sched_getaffinity(0)) if match[1] == "*" else int(match[1] or 1)


def create_session(settings: Settings, workers: bool = False) -> SparkSession:
    """A session with Tidemill's settings, or the running one.

    Parameters
    ----------
    workers : bool
        Whether tasks in Python come soon: the process that forks their workers is started beside the session.

    Raises
    ------
    TidemillError
        TM6001 or TM6002 when Java is missing or too old.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    check_java()
    _silence_py4j()
    logging.getLogger("tidemill").info("starting Spark")
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    pools = {"spark.scheduler.allocation.file": Path(__file__).with_name("fairscheduler.xml").as_uri()}
    slots = local_slots(settings.master)
    staying = 0 if slots is None or settings.mode == JOBS else settings.partitions or slots
    if settings.mode == AUTO:
        staying = min(staying, _MOST_RESIDENT)
    cores = staying * int(settings.spark_conf.get(TASK_CPUS, "1"))
    builder = SparkSession.builder
    conf = {
        "spark.app.name": "tidemill",
        "spark.master": full_master(settings.master, cores),
        **_CONF,
        **({RESIDENT_TASKS: str(staying)} if staying else {}),
        "spark.sql.session.timeZone": settings.time_zone or UTC,
        **pools,
        **settings.spark_conf,
    }
    if _WAREHOUSE not in conf:
        conf[_WAREHOUSE] = _warehouse()
    connect({**settings.spark_conf, "spark.master": settings.master}, workers)
    conf[JAVA_OPTIONS] = driver_java_options(settings.spark_conf.get(JAVA_OPTIONS, ""))
    for key, value in conf.items():
        builder = builder.config(key, value)
    context = SparkContext.getOrCreate(SparkConf().setAll(list(conf.items())))
    if workers and slots is not None:
        threading.Thread(target=_begin_workers, args=(context,), daemon=True).start()
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    _outlive_sigterm(made)
    _silence_accumulators(made.sparkContext)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True  # it would print Java's stack beside our own message
    return made


def _begin_workers(context: SparkContext) -> None:
    """Run a task in Python that does nothing, so that Spark starts the worker daemon, which takes seconds."""
    with suppress(Py4JError, PySparkException, OSError):  # the context was stopped meanwhile
        context.parallelize((0,), 1).foreachPartition(list)


def _warehouse() -> str:
    """A directory for tables of Spark's own, which it would make in the working directory.

    It is removed when this process ends, unless there are tables in it.
    """
    directory = tempfile.mkdtemp(prefix="tidemill-warehouse-")
    atexit.register(_remove_empty, directory)
    return directory


def _remove_empty(directory: str) -> None:
    with suppress(OSError):
        Path(directory).rmdir()


def _silence_py4j() -> None:
    """Stop py4j from printing traces when Java has ended or Ctrl-C comes during a call: it raises the error as well."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_of_py4j)


def _silence_accumulators(context: SparkContext) -> None:
    """Stop PySpark from printing a trace when Java has ended."""
    server: Any = context._accumulatorServer
    if server is not None:
        server.handle_error = lambda *_: None


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


@contextmanager
def session(settings: Settings) -> Iterator[SparkSession]:
    """As :func:`create_session`; it is stopped at the end."""
    spark = create_session(settings)
    try:
        yield spark
    finally:
        stop_session(spark)


def java_has_ended(context: SparkContext) -> bool:
    """Whether the Java process of a context is gone: killed, or out of memory."""
    try:
        java = context._jvm
        return java is None or java.System.currentTimeMillis() <= 0
    except (Py4JError, OSError):
        return True


def java_process_has_ended(context: SparkContext) -> bool:
    """As :func:`java_has_ended`, without asking Java, which may take long to answer.

    False where this process has not started Java itself.
    """
    process: subprocess.Popen[bytes] | None = getattr(context._gateway, "proc", None)
    return process is not None and process.poll() is not None


def java_ended(where: str) -> TidemillError:
    """TM6003: Java has ended while it was needed."""
    return TidemillError(
        "TM6003",
        "Java has ended",
        got=where,
        hint="it was killed, or had too little memory (spark_conf.spark.driver.memory); open the root again: the mill "
        "continues from its last checkpoint",
    )


@contextmanager
def needing_java(spark: SparkSession, where: str) -> Iterator[None]:
    """Errors in the block are TM6003 if Java has ended."""
    try:
        yield
    except (Py4JError, PySparkException, OSError, UnboundLocalError):  # the last where Java refuses PySpark a socket
        if java_has_ended(spark.sparkContext):
            raise java_ended(where) from None
        raise


def stop_session(spark: SparkSession) -> None:
    """Stop Spark; where Java has ended, reset PySpark's globals, so that it can start again."""
    end_waiting()
    if not java_has_ended(spark.sparkContext):
        context: Any = spark.sparkContext
        server, context._accumulatorServer = context._accumulatorServer, None
        try:
            spark.stop()
        finally:
            if context._jsc is None:
                _end_soon(server)
            else:  # it has not stopped
                context._accumulatorServer = server
        return
    with suppress(Py4JError, OSError):
        spark.sparkContext.stop()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _end_soon(server: Any) -> None:
    """End PySpark's server of accumulators, which looks once a second whether it is to end; PySpark waits for that."""
    if server is None:
        return
    if isinstance(server.server_address, str):
        Path(server.server_address).unlink(missing_ok=True)  # this process may end before
    threading.Thread(target=server.shutdown, daemon=True).start()


def _outlive_sigterm(session: SparkSession) -> None:
    """Let Java ignore SIGTERM, as it ignores SIGINT: this process handles both, and finishes its epoch first.

    A service manager sends them to the whole process group. Java ends with this process, when its input ends.
    """
    java = session.sparkContext._jvm
    assert java is not None
    java.sun.misc.Signal.handle(java.sun.misc.Signal("TERM"), java.sun.misc.SignalHandler.SIG_IGN)
