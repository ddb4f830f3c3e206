"""An S3 endpoint on loopback that takes its time: ``python -m benchmarks.slow_s3 PORT MILLISECONDS BUCKET``.

The server of moto with a delay before each request; requests beside each other are delayed beside each other.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any


@contextlib.contextmanager
def slow_s3(milliseconds: float, bucket: str) -> Iterator[dict[str, str]]:
    """A server in a process of its own, with an empty bucket; gives the environment that points at it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.slow_s3", str(port), str(milliseconds), bucket])
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/{bucket}?list-type=2"):
                break
            time.sleep(0.1)
        else:
            raise SystemExit("the S3 endpoint does not answer")
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
    finally:
        server.kill()
        server.wait()


def main() -> None:
    """Serve for good."""
    import logging

    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    port, delay, bucket = int(sys.argv[1]), float(sys.argv[2]) / 1e3, sys.argv[3]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    served = DomainDispatcherApplication(create_backend_app)

    def delayed(environment: dict[str, Any], start: Any) -> Iterable[bytes]:
        time.sleep(delay)
        answer: Iterable[bytes] = served(environment, start)
        return answer

    server = make_server("127.0.0.1", port, delayed, threaded=True)
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    from threading import Thread

    Thread(target=server.serve_forever, daemon=True).start()
    boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1").create_bucket(Bucket=bucket)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
