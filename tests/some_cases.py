"""Which cases of tests with many slow ones a run carries out.

``@pytest.mark.cases(n)`` says that n of the cases of a test, chosen at random, are enough for one run. The environment
variable TIDEMILL_CASES says which a run carries out: ``some``, ``rest`` (those that ``some`` of the same seed leaves
out), or ``all``, the default.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest

CASES, SEED = "TIDEMILL_CASES", "TIDEMILL_SEED"


def chosen(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests of this run, in their order.

    Cases are chosen by TIDEMILL_SEED, or else by the names of the tests alone: processes of one run choose the same.
    """
    wanted = os.environ.get(CASES, "all")
    assert wanted in ("some", "rest", "all"), f"{CASES} is {wanted}"
    if wanted == "all":
        return list(items)
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("cases") is not None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    some = set()
    for name, cases in tests.items():
        mark = cases[0].get_closest_marker("cases")
        assert mark is not None
        chance = random.Random(f"{os.environ.get(SEED, '')} {name}")
        some.update(chance.sample(cases, min(len(cases), mark.args[0])))
    marked = {item for cases in tests.values() for item in cases}
    if wanted == "rest":
        return [item for item in items if item in marked and item not in some]
    return [item for item in items if item not in marked or item in some]
