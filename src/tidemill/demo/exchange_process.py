"""The exchange of the demo, in a process of its own, which ends with the one that has begun it.

``python -m tidemill.demo.exchange_process SEED`` takes lines of standard input: ``trade RATE`` lets the market make so
many requests a second, ``halt`` stops it; the end of standard input ends the exchange. Each line is answered by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from types import TracebackType

from tidemill.errors import TidemillError
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.feeds import run_market
from tidemill.exchange.market import Market, MarketRules
from tidemill.exchange.server import ExchangeServer

SYMBOL = "ACME"
RESTING = 2_000
"""About how many orders rest in a full book."""
_END_SECONDS = 10.0


class ExchangeProcess:
    """An exchange that nobody trades at yet. Leave it to end the process.

    Attributes
    ----------
    address : tuple of str and int
    """

    def __init__(self, seed: int) -> None:
        command = [sys.executable, "-m", "tidemill.demo.exchange_process", str(seed)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a terminal's SIGINT is for who has begun it
        )
        host, _, port = self._read().rpartition(":")
        self.address = host, int(port)

    def __enter__(self) -> ExchangeProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def trade(self, rate: float) -> None:
        """Let the market make so many requests a second."""
        self._ask(f"trade {rate}")

    def halt(self) -> None:
        """Stop the market; clients can still trade."""
        self._ask("halt")

    def check(self) -> None:
        """TM7039 when the process has ended."""
        if self._process.poll() is not None:
            raise self._ended()

    def _ask(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return line.rstrip("\n")

    def _ended(self) -> TidemillError:
        code = self._process.wait()
        return TidemillError(
            "TM7039", "the exchange of the demo has ended", got=f"exit code {code}", hint="start the demo again"
        )


async def _serve(seed: int) -> None:
    rules = MarketRules(resting=RESTING)
    exchange = Exchange([Instrument(SYMBOL, rules.tick, rules.lot)], keep=1 << 20)
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    async with ExchangeServer(exchange, "127.0.0.1", 0, cancel_on_disconnect=True) as server:
        print("{}:{}".format(*server.address), flush=True)
        threading.Thread(target=read, daemon=True, name="stdin").start()
        market, trading = Market(seed, rules), None
        while line := await lines.get():
            word, *rest = line.split()
            if trading is not None:
                trading.cancel()
                await asyncio.wait([trading])
            trading = asyncio.create_task(run_market(server, market, float(rest[0]))) if word == "trade" else None
            print(word, flush=True)
        if trading is not None:
            trading.cancel()
            await asyncio.wait([trading])


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
