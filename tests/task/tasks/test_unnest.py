"""Arrays and maps side by side, beside Python's own zip."""

from __future__ import annotations

import random
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from task_runs import check_everywhere, cut, files, run_fresh

from tidemill.errors import TidemillError

TYPES = {
    "i": pa.int64(),
    "a": pa.list_(pa.int64()),
    "b": pa.list_(pa.string()),
    "m": pa.map_(pa.string(), pa.float64()),
}


def rows(rng: random.Random, first: int, count: int) -> list[dict[str, Any]]:
    def some(make: Any, most: int = 4) -> Any:
        return None if rng.random() < 0.15 else [make() for _ in range(rng.randrange(most))]

    return [
        {
            "i": i,
            "a": some(lambda: rng.choice((None, rng.randrange(9)))),
            "b": some(lambda: rng.choice((None, "", "ä", "xyz"))),
            "m": None if rng.random() < 0.2 else [(c, rng.random()) for c in "pqr"[: rng.randrange(4)]],
        }
        for i in range(first, first + count)
    ]


def expanded(row: dict[str, Any], outer: bool) -> list[tuple[Any, ...]]:
    """(i, a, b, m_key, m_value, place)."""
    lists = [row["a"] or [], row["b"] or [], row["m"] or []]
    found = [
        (row["i"], a, b, *(m or (None, None)), place)
        for place, (a, b, m) in enumerate(zip_longest(*lists), 1)
    ]  # fmt: skip
    return found or ([(row["i"], None, None, None, None, None)] if outer else [])


@pytest.mark.parametrize("outer", [False, True])
def test_random_rows(outer: bool, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    made = [rows(rng, 100 * i, rng.randrange(30)) for i in range(8)]
    schema = pa.schema(list(TYPES.items()))
    scan = files(tmp_path, [pa.Table.from_pylist(r, schema=schema) for r in made])
    plan = scan.unnest("a", "b", "m", ordinality="place", outer=outer)
    assert plan.schema.names == ("i", "a", "b", "m_key", "m_value", "place")
    by_path = dict(zip([s.path for s in scan.splits()], made, strict=True))
    for _ in range(3):
        sets = cut(rng, [scan])
        expected = []
        for splits in sets:
            wanted = [e for s in splits["input"] for row in by_path[s.path] for e in expanded(row, outer)]
            columns = zip(*wanted, strict=True) if wanted else [[]] * 6
            arrays = [pa.array(list(c), f.type) for c, f in zip(columns, plan.schema.to_arrow(), strict=True)]
            expected.append(pa.Table.from_arrays(arrays, schema=plan.schema.to_arrow()))
        check_everywhere(plan, sets, expected)


def test_one_row_of_many_elements(tmp_path: Path) -> None:
    """More than comes out at once: no array is cut off by the barrier."""
    table = pa.table({"a": pa.array([list(range(700_000)), [7]], pa.list_(pa.int64()))})
    scan = files(tmp_path, [table])
    found = run_fresh(scan.unnest("a"), {"input": scan.splits()})
    assert found.column(0).to_pylist() == [*range(700_000), 7]


def test_what_has_no_elements(tmp_path: Path) -> None:
    scan = files(tmp_path, [pa.table({"a": [1]})])
    with pytest.raises(TidemillError, match="TM9018"):
        scan.unnest("a")
    with pytest.raises(TidemillError, match="TM4006"):
        scan.unnest("b")
    with pytest.raises(TidemillError, match="TM4003"):
        scan.unnest()
