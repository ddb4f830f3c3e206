"""A mill without Spark over tables whose files a queue tells of: it lists, reads objects, seals, and may be killed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3

from tidemill.ddl import parse_columns
from tidemill.errors import TidemillError
from tidemill.objectstore.object_file import ObjectFile
from tidemill.plan.sql.statements import CreateTable
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.intake.intake import Intake
from tidemill.sources.split import Split, SplitResult
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Version

BUCKET = "told"


class Store:
    """A bucket and a queue at an endpoint, and events as S3 sends them."""

    def __init__(self, endpoint: str, hidden_seconds: int = 1) -> None:
        self.s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        self.sqs = boto3.client("sqs", endpoint_url=endpoint, region_name="us-east-1")
        self.s3.create_bucket(Bucket=BUCKET)
        hidden = {"VisibilityTimeout": str(hidden_seconds)}
        self.url = self.sqs.create_queue(QueueName="events", Attributes=hidden)["QueueUrl"]
        self._events = 0

    def put(self, key: str, body: bytes) -> str:
        """Write an object; returns its ETag."""
        return str(self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)["ETag"])

    def event(self, key: str, body: bytes, etag: str, name: str = "ObjectCreated:Put") -> str:
        """What S3 says of an object."""
        self._events += 1
        entry = {"key": key.replace(" ", "+"), "size": len(body), "eTag": etag.strip('"')}
        entry["sequencer"] = f"{self._events:016X}"
        when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        record = {"eventSource": "aws:s3", "eventTime": when, "eventName": name}
        return json.dumps({"Records": [{**record, "s3": {"bucket": {"name": BUCKET}, "object": entry}}]})

    def tell(self, *bodies: str) -> None:
        """Send messages."""
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def left(self) -> int:
        """Messages in the queue, hidden ones too."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(int(found[n]) for n in names)

    def remove(self) -> None:
        """Everything goes."""
        for found in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
            self.s3.delete_object(Bucket=BUCKET, Key=found["Key"])
        self.s3.delete_bucket(Bucket=BUCKET)
        self.sqs.delete_queue(QueueUrl=self.url)


class QueueMill:
    """Positions and rows move together; ``crash`` goes back to what was durable.

    Attributes
    ----------
    rows : dict
        By table and path, the contents that were read and count, with how often.
    unread : set of str
        Tables that no view reads.
    """

    def __init__(self, directory: Path) -> None:
        self._store = RunStore(Objects(directory / "root"), directory / "buffer")
        self.catalog = Catalog()
        self.version = Version.empty()
        self.rows: dict[tuple[str, str], Counter[bytes]] = {}
        self.intake = Intake(self.catalog, self._store, self.version, {})
        self.said: list[str] = []
        self.unread: set[str] = set()
        self.checkpoint()

    def create(self, name: str, **options: str) -> None:
        statement = CreateTable(name, parse_columns("line STRING"), "csv", options)
        self.catalog = self.catalog.add_table(statement, self.version.epoch)
        self.intake.add_table(self.catalog.tables[name])
        self.checkpoint()

    def checkpoint(self) -> None:
        kept = json.dumps(self.intake.to_json())
        self._durable = self.version, kept, {k: Counter(v) for k, v in self.rows.items()}

    def close(self) -> None:
        """Stop as a mill does."""
        self.checkpoint()
        self.intake.close(self.version.epoch)

    def crash(self) -> None:
        """The process is killed, and another one begins from what is durable."""
        self.version, kept, rows = self._durable
        self.rows = {k: Counter(v) for k, v in rows.items()}
        self.intake = Intake(self.catalog, self._store, self.version, json.loads(kept))

    def step(self) -> bool:
        """One epoch, if there is anything to do."""
        self.intake.use(self.catalog.tables.keys() - self.unread, {})
        self.intake.list_files(0.0, self._durable[0].epoch)
        return self.epoch()

    def drain(self) -> None:
        """As ``run --once``."""
        self.intake.use(self.catalog.tables.keys() - self.unread, {})
        self.intake.list_all()
        while self.epoch() or self.intake.retry_in() is not None:
            time.sleep(min(self.intake.retry_in() or 0.0, 0.05))
            self.intake.go_on()
        self.checkpoint()

    def epoch(self) -> bool:
        splits = self.intake.admit(1 << 30, 1 << 30)
        done, failed = [], []
        for split in splits:
            try:
                done.append((split, self._read(split)))
            except TidemillError as error:
                failed.append((split, error))
        if failed:
            assert not self.intake.set_aside(failed)
        self.said += self.intake.warnings()
        if not done and not self.intake.must_note:
            return False
        results = [SplitResult(s, False, 0, 1, s.end - s.start, 0, 0) for s, _ in done]
        epoch = self.version.epoch + 1
        runs = self.intake.apply(results, epoch)
        for split, body in done:
            known = self.rows.setdefault((split.table, split.path), Counter())
            if split.replaces:
                known.clear()
            known[body] += 1
        self.version = self.version.seal(epoch, runs, ())
        self.intake.at(self.version)
        return True

    def _read(self, split: Split) -> bytes:
        place = self.catalog.tables[split.table].location
        file = ObjectFile(split.path, split.size, split.etag, split.modified, place.connection)
        return file.read_at(split.start, split.end - split.start)

    def until(self, reached: Callable[[], Any], seconds: float = 120.0) -> None:
        """Epochs, each with a checkpoint, until something is so."""
        end = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < end, (self.rows, self.said)
            if not self.step():
                time.sleep(0.01)
            if self.version is not self._durable[0]:
                self.checkpoint()

    def contents(self, table: str = "t") -> dict[str, bytes]:
        """Key to what was read of the object, which is of one version, once."""
        found = {}
        for (name, path), known in self.rows.items():
            if name == table:
                ((body, times),) = known.items()
                assert times == 1, path
                found[path.removeprefix(f"s3://{BUCKET}/")] = body
        return found
