"""The snippet of docs/server.md, against sums in a dictionary."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving import Served

ServeFactory = Callable[..., Served]
PAGE = Path(__file__).parents[2] / "docs" / "server.md"


def test_the_python_of_the_page(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = tmp_path / "orders"
    data.mkdir()
    rows = [(1, 2.5), (1, 0.5), (2, 4.0)]
    (data / "1.json").write_text("".join(json.dumps({"customer": c, "amount": a}) + "\n" for c, a in rows))
    served.sql(f"CREATE TABLE orders (customer INT, amount DOUBLE) USING json OPTIONS (path '{data}')")
    served.sql("CREATE MATERIALIZED VIEW spending AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
    served.mill.start(0.02)
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    found: dict[str, Any] = {}
    exec(compile(code.replace("http://127.0.0.1:8320", served.url), "snippet", "exec"), found)
    sums: dict[int, float] = {}
    for customer, amount in rows:
        sums[customer] = sums.get(customer, 0) + amount
    assert {r["customer"]: r["amount"] for r in found["client"].table("totals").to_pylist()} == sums
    given = [row for change in found["fetched"].changes for row in change.table.to_pylist()]
    assert {r["customer"]: r["amount"] for r in given if r["__weight"] == 1} == sums
    assert found["tables"]["totals"].num_rows == 2 and found["change"].view in ("totals", "spending")
    found["client"].close()
    served.mill.stop()
