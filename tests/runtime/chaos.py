"""Kill a running pipeline many times and check that nothing is lost: ``make chaos``, or
``python tests/runtime/chaos.py [KILLS [SEED]]``.

Kills come at any moment: while Java starts, while views are created, in an epoch, in a checkpoint. Some
take the JVM with them, some leave it behind as an orphan whose tasks go on for a moment.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path

from flights_pipeline import assert_same, check_readable, contents, kill, kill_after_epochs, start, write_input


def main(kills: int, seed: int) -> None:
    """Run, kill, repeat; then let one run finish and compare with an undisturbed one."""
    print(f"TIDEMILL_SEED={seed}")
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        script = write_input(directory / "data", seed, rows=6000 * max(1, kills // 4))
        root, epoch_bytes = directory / "root", 6000
        for number in range(kills):
            process, spark_too = start(script, root, epoch_bytes, "--once"), chance.random() < 0.5
            if chance.random() < 0.3:
                time.sleep(chance.uniform(0, 8))
                kill(process, spark_too)
            elif not kill_after_epochs(process, chance.randrange(1, 8), chance.uniform(0, 1), spark_too):
                print("the run ended before it was killed")
                break
            print(f"kill {number + 1}: durable epoch {check_readable(root)}", flush=True)
        for target in (root, directory / "calm"):
            process = start(script, target, epoch_bytes if target == root else 1 << 20, "--once")
            out, err = process.communicate()
            assert process.returncode == 0, err
            print(out.splitlines()[0], flush=True)
        assert_same(contents(root), contents(directory / "calm"))
    print("all views are equal")


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    main(
        given[0] if given else int(os.environ.get("TIDEMILL_CHAOS", "20")),
        given[1] if len(given) > 1 else random.SystemRandom().randrange(10**6),
    )
