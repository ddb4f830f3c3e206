"""A small star schema in the manner of TPC-DS: two sales channels, returns, and four dimensions, with NULLs."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.tpch.changes import Changes, Times, cut, lives

_DAYS, _ITEMS, _CUSTOMERS, _STORES = 730, 60, 50, 5
_FIRST_DAY = datetime.date(2000, 1, 1)
_MONEY = pa.decimal128(7, 2)
_NULLS = 0.06
_CATEGORIES = {"Books": ("fiction", "travel"), "Music": ("rock", "folk", "pop"), "Home": ("lamps",), None: (None,)}


def star_changes(seed: int, sales: int, epochs: int) -> Changes:
    """Tables with about ``sales`` rows a channel, in about ``epochs`` epochs of changes."""
    random = np.random.default_rng(seed)
    store_sales = _sales("ss", random, sales, stores=True)
    tables = {
        "date_dim": _date_dim(),
        "item": _item(random),
        "customer": _customer(random),
        "store": _store(random),
        "store_sales": store_sales,
        "web_sales": _sales("ws", random, sales // 2, stores=False),
        "store_returns": _returns(store_sales, random),
    }
    times: dict[str, Times] = {}
    for name, table in tables.items():
        late = 1.0 if name.endswith(("sales", "returns")) else 0.3
        created_at_epoch = np.zeros(_DAYS) if name == "date_dim" else late * random.random(table.num_rows)
        times[name] = lives(created_at_epoch, 0.02 if name == "date_dim" else 0.2, 0.5, random)
    total = sum(len(rows) for rows, _, _ in times.values())
    return cut(tables, times, total // epochs)


def _table(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    return pa.table({name: pa.array(values, type_) for name, (type_, values) in columns.items()})


def _holes(values: list[Any], random: np.random.Generator) -> list[Any]:
    return [None if hole else v for v, hole in zip(values, random.random(len(values)) < _NULLS, strict=True)]


def _date_dim() -> pa.Table:
    days = [_FIRST_DAY + datetime.timedelta(days=i) for i in range(_DAYS)]
    return _table(
        {
            "d_date_sk": (pa.int32(), list(range(_DAYS))),
            "d_date": (pa.date32(), days),
            "d_year": (pa.int32(), [d.year for d in days]),
            "d_moy": (pa.int32(), [d.month for d in days]),
            "d_week_seq": (pa.int32(), [i // 7 for i in range(_DAYS)]),
            "d_day_name": (pa.string(), [d.strftime("%A") for d in days]),
        }
    )


def _item(random: np.random.Generator) -> pa.Table:
    categories = [list(_CATEGORIES)[i] for i in random.integers(0, len(_CATEGORIES), _ITEMS)]
    prices = [decimal.Decimal(int(c)) / 100 for c in random.integers(50, 9000, _ITEMS)]
    return _table(
        {
            "i_item_sk": (pa.int32(), list(range(_ITEMS))),
            "i_category": (pa.string(), categories),
            "i_class": (pa.string(), [str(random.choice(_CATEGORIES[c])) if c else None for c in categories]),
            "i_brand": (pa.string(), [f"brand {b}" for b in random.integers(0, 9, _ITEMS)]),
            "i_manufact_id": (pa.int32(), random.integers(0, 7, _ITEMS).tolist()),
            "i_color": (pa.string(), _holes([("red", "green", "blue")[i % 3] for i in range(_ITEMS)], random)),
            "i_current_price": (_MONEY, _holes(prices, random)),
        }
    )


def _customer(random: np.random.Generator) -> pa.Table:
    states = [("CA", "NY", "TX", "WA")[i] for i in random.integers(0, 4, _CUSTOMERS)]
    years = [1950 + int(y) for y in random.integers(0, 8, _CUSTOMERS)]
    return _table(
        {
            "c_customer_sk": (pa.int32(), list(range(_CUSTOMERS))),
            "c_last_name": (pa.string(), _holes([f"name {i % 20}" for i in range(_CUSTOMERS)], random)),
            "c_state": (pa.string(), _holes(states, random)),
            "c_birth_year": (pa.int32(), _holes(years, random)),
        }
    )


def _store(random: np.random.Generator) -> pa.Table:
    return _table(
        {
            "s_store_sk": (pa.int32(), list(range(_STORES))),
            "s_store_name": (pa.string(), ["able", "bar", "ese", "ese", None]),
            "s_state": (pa.string(), ["CA", "CA", "NY", "TX", "TX"]),
        }
    )


def _sales(prefix: str, random: np.random.Generator, count: int, stores: bool) -> pa.Table:
    """Few items and customers make most of the sales; tickets have several rows, some of them alike."""
    item = np.minimum(random.exponential(15, count), _ITEMS + 2).astype(int).tolist()
    customer = np.minimum(random.exponential(12, count), _CUSTOMERS - 1).astype(int).tolist()
    prices = [decimal.Decimal(int(c)) / 100 for c in random.integers(0, 9900, count)]
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        f"{prefix}_sold_date_sk": (pa.int32(), _holes(random.integers(0, _DAYS, count).tolist(), random)),
        f"{prefix}_item_sk": (pa.int32(), item),
        f"{prefix}_customer_sk": (pa.int32(), _holes(customer, random)),
        f"{prefix}_ticket": (pa.int64(), random.integers(0, count // 3, count).tolist()),
        f"{prefix}_quantity": (pa.int32(), _holes(random.integers(1, 100, count).tolist(), random)),
        f"{prefix}_price": (_MONEY, _holes(prices, random)),
        f"{prefix}_profit": (pa.float64(), _holes((random.integers(-800, 900, count) / 8).tolist(), random)),
    }
    if stores:
        columns["ss_store_sk"] = (pa.int32(), _holes(random.integers(0, _STORES, count).tolist(), random))
    return _table(columns)


def _returns(sales: pa.Table, random: np.random.Generator) -> pa.Table:
    rows = sales.take(pa.array(random.choice(sales.num_rows, sales.num_rows // 4, replace=False))).to_pydict()
    amounts = [None if p is None else (p / 2).quantize(decimal.Decimal("0.01")) for p in rows["ss_price"]]
    return _table(
        {
            "sr_returned_date_sk": (pa.int32(), rows["ss_sold_date_sk"]),
            "sr_item_sk": (pa.int32(), rows["ss_item_sk"]),
            "sr_customer_sk": (pa.int32(), rows["ss_customer_sk"]),
            "sr_ticket": (pa.int64(), rows["ss_ticket"]),
            "sr_store_sk": (pa.int32(), rows["ss_store_sk"]),
            "sr_quantity": (pa.int32(), rows["ss_quantity"]),
            "sr_amount": (_MONEY, amounts),
        }
    )
