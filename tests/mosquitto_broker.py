"""A real MQTT broker for tests, Debian's Mosquitto, on a free port of loopback, which keeps sessions on its disk."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from tests.kafka_broker import _end_with_parent, free_port

_SECONDS = 60
_PROGRAM = "/usr/sbin/mosquitto"


class MqttBroker:
    """A broker that anybody may use, unless it has ``users``, who may read all topics except those below ``secret``.

    Parameters
    ----------
    users : mapping of str to str
        Names and passwords; none for anybody.
    settings : str
        Lines of its configuration.
    """

    def __init__(self, users: dict[str, str] | None = None, settings: Iterable[str] = ()) -> None:
        assert Path(_PROGRAM).exists(), "apt-get install mosquitto"
        self._directory = Path(tempfile.mkdtemp(prefix="tidemill-mosquitto-"))
        self.port, self.users = free_port(), users or {}
        lines = [f"listener {self.port} 127.0.0.1", "persistence true", f"persistence_location {self._directory}/"]
        lines += [f"allow_anonymous {'false' if users else 'true'}", "max_queued_messages 0", *settings]
        if users:
            passwords = self._directory / "passwords"
            passwords.write_text("".join(f"{name}:{password}\n" for name, password in users.items()))
            subprocess.run(["/usr/bin/mosquitto_passwd", "-U", str(passwords)], check=True, timeout=_SECONDS)
            (self._directory / "acl").write_text("pattern readwrite open/#\npattern write secret/#\n")
            lines += [f"password_file {passwords}", f"acl_file {self._directory}/acl"]
        lines += ["user root"]
        (self._directory / "conf").write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start, and wait until it listens."""
        with (self._directory / "log").open("ab") as log:
            command = [_PROGRAM, "-v", "-c", str(self._directory / "conf")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=_end_with_parent)
        until = time.monotonic() + _SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
                return
            except OSError:
                assert time.monotonic() < until and self._process.poll() is None, self.log()
                time.sleep(0.05)

    def stop(self, forget: bool = False) -> None:
        """Stop it; it keeps sessions unless it is to forget them."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_SECONDS)
        self._process = None
        if forget:
            (self._directory / "mosquitto.db").unlink()

    def log(self) -> str:
        """What it has said."""
        return (self._directory / "log").read_text()

    def publish(self, messages: Iterable[tuple[str, bytes, int]], retain: bool = False) -> None:
        """Messages of topic, payload and QoS, in order; the broker has them all at the end."""
        client = Client(CallbackAPIVersion.VERSION2)
        for name, password in list(self.users.items())[:1]:
            client.username_pw_set(name, password)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        sent = [client.publish(topic, payload, qos, retain) for topic, payload, qos in messages]
        sent.append(client.publish("nobody/reads/this", b"", 1))  # behind those with QoS 0
        for one in sent:
            one.wait_for_publish(_SECONDS)
            assert one.is_published(), self.log()[-2000:]
        client.disconnect()
        client.loop_stop()

    def options(self, topics: str, **others: str) -> str:
        """Options of a table of a mill; ``__`` stands for a point."""
        given = {"host": "127.0.0.1", "port": str(self.port), "topics": topics, **others}
        return ", ".join(f"'{name.replace('__', '.')}' '{value}'" for name, value in given.items())

    def close(self) -> None:
        """Stop it, and remove its files."""
        if self._process is not None:
            self.stop()
        shutil.rmtree(self._directory)
