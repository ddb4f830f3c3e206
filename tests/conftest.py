"""One Spark session per test process, mills on it, and printed random seeds."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

from commands import Finished, here
from mill_factory import MillFactory
from tidemill.cli.run import progress_display
from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.runtime.spark.session import create_session

gc.disable()  # what is imported and collected stays: looking through it takes a third of that time
# Processes of Java are short-lived here: its second compiler costs more than it saves. Room for code saves sweeping
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=160m")

_LONGEST = (
    "test_tutorial.py",
    "spark_source/test_data_stream.py",
    "runtime/job/test_limited_workers.py",
    "runtime/durability/test_two_hosts.py",
    "equivalence/test_recursive_views.py",
    "serve/test_soak.py",
    "task/functions/test_spark_functions.py",
    "formats/test_csv_splits.py",
    "task/test_memory.py",
    "formats/test_wide_tables.py",
    "runtime/durability/test_golden_roots.py",
    "equivalence/test_nexmark.py",
    "task/test_window.py",
    "loader/test_training.py",
    "equivalence/test_tpch.py",
    "connectors/test_joined_sources.py",
    "equivalence/test_keyed_tables.py",
    "task/tasks/test_merge_join.py",
    "state/test_lookup.py",
    "equivalence/test_queries.py",
    "equivalence/test_view_lifecycle.py",
    "sources/test_object_files.py",
    "spark_source/test_data_source.py",
    "runtime/ingest/test_ingest.py",
    "task/functions/test_against_spark.py",
    "serve/dashboard/test_dashboard.py",
    "runtime/files/test_notified_files.py",
    "runtime/job/test_resident_epochs.py",
    "connectors/test_mqtt_tables.py",
    "connectors/test_postgres_tables.py",
    "demo/test_demo.py",
    "cli/test_cli.py",
    "formats/test_split_unordered.py",
    "serve/test_http.py",
    "serve/test_command.py",
    "connectors/test_kafka_avro.py",
    "runtime/crashes/test_buffer_loss.py",
    "equivalence/test_static_tables.py",
    "connectors/test_kafka.py",
    "exchange/test_exchange_command.py",
    "sinks/test_kafka_sink.py",
    "runtime/spark/test_early_daemon.py",
    "runtime/files/test_left_out_files.py",
    "loader/test_loader.py",
    "runtime/files/test_file_metadata.py",
    "sources/test_clean_files.py",
    "test_pipelines.py",
    "equivalence/test_divided_epochs.py",
    "test_kernel_cache.py",
    "equivalence/test_unordered_epochs.py",
    "equivalence/test_replacing.py",
    "test_docs.py",
    "equivalence/test_small_tables.py",
    "runtime/catalog/test_pauses.py",
    "runtime/files/test_cleaned_files.py",
    "loader/test_plans.py",
    "connectors/test_delta_tables.py",
    "equivalence/test_random_queries.py",
    "task/tasks/test_sql_tasks.py",
    "serve/postgres/test_engines.py",
    "runtime/durability/test_bad_roots.py",
    "formats/test_rows_stand_alone.py",
    "test_errors.py",
    "task/tasks/test_task_api.py",
    "serve/test_view_indexes.py",
    "cli/test_cli_end.py",
    "runtime/crashes/test_crash.py",
    "state/test_fault_injection.py",
    "serve/test_websocket.py",
    "serve/test_access.py",
    "runtime/tables/test_object_tables.py",
    "runtime/crashes/test_crash_matrix.py",
)
"""Files that take longest, slow tests first, so that all processes end at about the same time."""
_PLACES = {name: place for place, name in enumerate(_LONGEST)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files."""
    root = Path(__file__).parent
    items.sort(key=lambda item: _PLACES.get(item.path.relative_to(root).as_posix(), len(_LONGEST)))


def pytest_collection_finish() -> None:
    """From now on the garbage collector looks at what tests make, not at the 700,000 objects that were there before."""
    gc.freeze()
    gc.enable()


_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
}
"""What Spark would compile for a query, or keep of it for its pages, costs more than the query."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of this process, set up as a mill sets up its own, for queries over a few rows."""
    session = create_session(Settings(master="local[2]", spark_conf={"spark.driver.memory": "1g", **_FEW_ROWS}))
    yield session
    session.stop()


@pytest.fixture
def mill_factory(spark: SparkSession, tmp_path: Path) -> Iterator[MillFactory]:
    """``mill_factory(name="root", **settings)`` opens a mill below ``tmp_path``; all are closed at the end.

    Files are listed in every epoch unless ``listing_seconds`` is given, and epochs have exchanges however small
    they are unless ``small_epoch_bytes`` is.
    """
    opened: list[Mill] = []

    def open_mill(name: str = "root", **settings: Any) -> Mill:
        given = {"master": "local[2]", "partitions": 2, "listing_seconds": 0.0, "small_epoch_bytes": 0, **settings}
        opened.append(Mill(tmp_path / name, spark=spark, settings=Settings(**given)))
        return opened[-1]

    yield open_mill
    for mill in opened:
        mill.close()


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Finished]]:
    """The command in this process, on its session."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.setattr(progress_display, "EVERY", 1e6)
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    yield here
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def seed() -> int:
    """A random seed, printed; the environment variable TIDEMILL_SEED repeats a run."""
    given = os.environ.get("TIDEMILL_SEED")
    value = int(given) if given else random.SystemRandom().randrange(10**6)
    print(f"TIDEMILL_SEED={value}")
    return value


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """A real S3 endpoint on loopback, with the environment that points at it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    host, port = server.get_host_and_port()
    given = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    boto3.client("s3", endpoint_url=given["AWS_ENDPOINT_URL"], region_name="us-east-1").create_bucket(Bucket="mill")
    yield given["AWS_ENDPOINT_URL"]
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    server.stop()
