"""Sensors that send readings over TCP, and views that follow them.

A mill listens; sensors connect, send lines of JSON, drop their connections and come back. Nothing else is installed:
``nc HOST PORT`` is a sensor, too.

Run:  python examples/sensors.py [SECONDS]
"""

from __future__ import annotations

import json
import random
import socket
import sys
import tempfile
import threading
import time

import tidemill as tm

SCRIPT = """
CREATE TABLE readings (sensor INT, n BIGINT, celsius DOUBLE)
  USING json OPTIONS (path 'tcp+listen://127.0.0.1:0', maxMessageBytes '64k', messageTimeout '5s');
CREATE MATERIALIZED VIEW by_sensor AS
  SELECT sensor, COUNT(*) AS readings, AVG(celsius) AS mean, MAX(celsius) AS hottest FROM readings GROUP BY sensor;
"""


class Sensor(threading.Thread):
    """Sends readings, ten a second; now and then it loses its connection between two of them."""

    def __init__(self, number: int, port: int) -> None:
        super().__init__(daemon=True)
        self.number, self.port = number, port
        self.sent = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        """Until stopped."""
        chance = random.Random(self.number)
        while not self.stopped.is_set():
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                for _ in range(chance.randrange(5, 30)):
                    reading = {"sensor": self.number, "n": self.sent, "celsius": round(chance.gauss(20, 3), 2)}
                    connection.sendall(json.dumps(reading).encode() + b"\n")
                    self.sent += 1
                    if self.stopped.wait(0.1):
                        break


def follow(mill: tm.Mill, seconds: float, sensors: int = 8) -> int:
    """Let sensors send for some time while the mill runs, then read what is left; returns how much was sent."""
    mill.script(SCRIPT)
    port = int(mill.read("readings__status").to_pylist()[0]["peer"].rsplit(":", 1)[1])
    print(f"listening on port {port}")
    senders = [Sensor(number, port) for number in range(sensors)]
    for sender in senders:
        sender.start()
    mill.start(interval=0.02)
    time.sleep(seconds)
    for sender in senders:
        sender.stopped.set()
    for sender in senders:
        sender.join()
    mill.stop()
    sent = sum(sender.sent for sender in senders)
    while sum(row["messages"] for row in mill.read("readings__status").to_pylist()) < sent:
        time.sleep(0.01)  # the last bytes are on their way
    for _ in mill.drain():
        pass
    return sent


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, tm.Mill(f"{directory}/root") as mill:
        total = follow(mill, float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
        print(f"{total} readings sent")
        mill.table("by_sensor").orderBy("sensor").show()
        mill.query(
            "SELECT state, COUNT(*) AS connections, SUM(messages) AS m FROM readings__status GROUP BY state"
        ).show()
