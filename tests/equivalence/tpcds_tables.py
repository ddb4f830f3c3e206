"""Small tables of TPC-DS in which most of the queries find rows.

What a column holds is drawn from the constants that the queries compare it with, beside a few values of its own; a few
items, customers and days have most of the sales; returns are of sales. Days, months and weeks are numbered as in the
specification.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.tpcds.queries import NAMES, query, schemas
from benchmarks.tpch.changes import Changes, Times, cut, lives
from tpcds_made import BETWEEN, FIRST_ROWS, LAST_ROWS, RETURNED, SALES, Made

_FIRST_DAY, _LAST_DAY = datetime.date(1998, 1, 1), datetime.date(2002, 12, 31)
_EPOCH = datetime.date(1900, 1, 2)
_FIRST_SK = 2415022  # of 1900-01-02
_HOT_MONTHS = ((1998, 11), (1998, 12), (1999, 2), (1999, 11), (2000, 1), (2000, 2), (2001, 1), (2001, 4), (2001, 12))
_SIZES = {
    "call_center": 4,
    "catalog_page": 12,
    "customer": 70,
    "customer_address": 50,
    "customer_demographics": 40,
    "household_demographics": 60,
    "income_band": 20,
    "item": 90,
    "promotion": 8,
    "reason": 5,
    "ship_mode": 6,
    "store": 5,
    "warehouse": 3,
    "web_page": 6,
    "web_site": 4,
}
_SALES = {"store_sales": 2000, "catalog_sales": 1400, "web_sales": 1100}
_INVENTORY = 900
_RETURNED = 0.35
_NULLS = 0.03
_FIXED = ("date_dim", "time_dim")
_NO_KEY = 99_999
_MADE_ORDERS = 1_000_000
_CENT = decimal.Decimal("0.01")
_DIMENSION_OF = {
    "item": "item",
    "customer": "customer",
    "cdemo": "customer_demographics",
    "hdemo": "household_demographics",
    "addr": "customer_address",
    "store": "store",
    "promo": "promotion",
    "warehouse": "warehouse",
    "center": "call_center",
    "catalog_page": "catalog_page",
    "mode": "ship_mode",
    "web_page": "web_page",
    "site": "web_site",
    "reason": "reason",
    "income_band": "income_band",
}
_OTHER_VALUES: dict[str, list[Any]] = {
    "ca_country": ["United States"] * 20,
    "cd_purchase_estimate": [500, 1000, 1500],
    "cd_credit_rating": ["Good", "Low Risk"],
    "c_birth_country": ["JAPAN", "PERU", "TOGO"],
    "i_brand": ["corpbrand #1", "edu packbrand #2", "exportiunivamalg #9", "scholaramalgamalg #14"],
    "i_category": ["Books", "Children", "Electronics", "Women", "Music", "Men", "Home", "Sports", "Jewelry", "Shoes"],
    "ca_gmt_offset": [-5, -5, -6],
    "s_gmt_offset": [-5],
    "i_current_price": [0.99, 1.25, 1.49, 30, 55, 70, 90],
    "s_store_name": ["ese", "ought", "able"],
    "s_market_id": [8, 8, 6],
    "i_size": ["small", "large", "economy"],
    "ca_location_type": ["condo", "apartment"],
    "hd_buy_potential": [">10000", "Unknown", "1001-5000", "0-500"],
    "sm_type": ["EXPRESS", "LIBRARY", "TWO DAY"],
    "web_name": ["site_0", "site_1"],
    "w_warehouse_name": ["Conventional childr", "Important issues liv", "Doors canno"],
    "c_preferred_cust_flag": ["Y", "Y", "N"],
    "p_channel_dmail": ["Y", "N"],
    "p_channel_email": ["N", "Y"],
    "p_channel_tv": ["N", "Y"],
    "p_channel_event": ["N", "Y"],
}


def tpcds_changes(seed: int, epochs: int, scale: float = 1.0) -> Changes:
    """The 24 tables in about ``epochs`` epochs of changes; facts are ``scale`` times as many as usual.

    Rows that were made for queries are there at the end, whatever happened to them before.
    """
    random = np.random.default_rng(seed)
    tables = _tables(random, scale)
    times: dict[str, Times] = {}
    for name, table in tables.items():
        fact = name.endswith(("sales", "returns")) or name == "inventory"
        if name in _FIXED:
            times[name] = (np.arange(table.num_rows), np.ones(table.num_rows, np.int64), np.zeros(table.num_rows))
        else:
            created_at_epoch = (0.9 if fact else 0.25) * random.random(table.num_rows)
            times[name] = _with_made(
                name, table.num_rows, lives(created_at_epoch, 0.15 if fact else 0.08, 0.5, random), random
            )
    moving = sum(len(rows) for name, (rows, _, _) in times.items() if name not in _FIXED)
    return cut(tables, times, max(1, moving // epochs), epochs - 1)


def _with_made(name: str, rows: int, times: Times, random: np.random.Generator) -> Times:
    """Rows that were made for queries come back when they have gone; the return of ``BETWEEN`` goes in the end."""
    number, weight, at = times
    made = np.zeros(rows, bool)
    made[: len(FIRST_ROWS.get(name, ()))] = True
    last = len(SALES.get(name, ())) + len(RETURNED.get(name, ())) + len(LAST_ROWS.get(name, ()))
    made[rows - last :] = True
    left = np.bincount(number, weight, minlength=rows)
    gone = np.flatnonzero(made & (left == 0))
    died = np.array([at[(number == row) & (weight < 0)].max() for row in gone])
    number = np.concatenate([number, gone])
    weight = np.concatenate([weight, np.ones(len(gone), np.int64)])
    at = np.concatenate([at, died + (1 - died) * random.uniform(0.01, 0.9, len(gone))])
    if name == BETWEEN.table:
        row = rows - len(RETURNED[name]) + BETWEEN.row
        others = number != row
        number = np.concatenate([number[others], [row, row]])
        weight = np.concatenate([weight[others], [1, -1]])
        at = np.concatenate([at[others], [BETWEEN.comes, BETWEEN.goes]])
    return number, weight, at


def constants() -> dict[str, list[Any]]:
    """What the queries compare each column with: texts, and numbers as decimals."""
    found: dict[str, list[Any]] = {}
    texts = " ".join(query(name) for name in NAMES)
    number = r"-?\d+(?:\.\d+)?"
    for column, text in re.findall(r"\b([a-z]+_[a-z_]+)\s*=\s*'([^']*)'", texts):
        found.setdefault(column, []).append(text)
    for column, listed in re.findall(r"\b([a-z]+_[a-z_]+)\s+in\s*\(((?:\s*'[^']*'\s*,?)+)\)", texts, re.IGNORECASE):
        found.setdefault(column, []).extend(re.findall(r"'([^']*)'", listed))
    for column, value in re.findall(rf"\b([a-z]+_[a-z_]+)\s*=\s*({number})", texts):
        found.setdefault(column, []).append(decimal.Decimal(value))
    for column, listed in re.findall(rf"\b([a-z]+_[a-z_]+)\s+in\s*\(((?:\s*{number}\s*,?)+)\)", texts, re.IGNORECASE):
        found.setdefault(column, []).extend(map(decimal.Decimal, re.findall(number, listed)))
    for column, low, high in re.findall(
        rf"\b([a-z]+_[a-z_]+)\s+between\s+({number})\s+and\s+({number})", texts, re.IGNORECASE
    ):
        found.setdefault(column, []).extend([decimal.Decimal(low), decimal.Decimal(high)])
    return found


class _Maker:
    """Makes the columns of tables that no rule of their own makes."""

    def __init__(self, random: np.random.Generator, sizes: dict[str, int]) -> None:
        self.random = random
        self.sizes = sizes
        self.pools = {column: sorted(set(pool), key=str) for column, pool in constants().items()}
        for column, values in _OTHER_VALUES.items():
            pool = self.pools.setdefault(column, [])
            pool += [decimal.Decimal(str(v)) if isinstance(v, int | float) else v for v in values]

    def column(self, name: str, type_: pa.DataType, rows: int) -> list[Any]:
        """Values of a column of a dimension."""
        pool = self.pools.get(name, [])
        if pa.types.is_string(type_):
            pool = [v for v in pool if isinstance(v, str)]
            values = [self._one_of(pool) if pool else f"{name[name.index('_') + 1 :]} {i % 17}" for i in range(rows)]
        elif pa.types.is_date(type_):
            values = [_FIRST_DAY + datetime.timedelta(days=int(d)) for d in self.random.integers(0, 900, rows)]
            if name.endswith("rec_end_date"):
                values = [None if i % 2 else v for i, v in enumerate(values)]
        else:
            pool = [v for v in pool if not isinstance(v, str)]
            values = [self._one_of(pool) if pool else int(self.random.integers(1, 8)) for _ in range(rows)]
        return self.holes(values)

    def holes(self, values: list[Any]) -> list[Any]:
        """Some of them NULL."""
        return [None if h else v for v, h in zip(values, self.random.random(len(values)) < _NULLS, strict=True)]

    def keys(self, dimension: str, rows: int, holes: bool = True) -> list[Any]:
        """Keys of a dimension: the first ones have most of the rows, some are of no row."""
        size = self.sizes[dimension]
        drawn = self.random.exponential(size / 4, rows).astype(int)
        found = np.where(drawn < size, drawn + 1, _NO_KEY)
        return self.holes(found.tolist()) if holes else found.tolist()

    def days(self, rows: int) -> list[datetime.date]:
        """Days of sales."""
        span = (_LAST_DAY - _FIRST_DAY).days - 100
        found = []
        for hot in self.random.random(rows) < 0.75:
            if hot:
                year, month = _HOT_MONTHS[self.random.integers(len(_HOT_MONTHS))]
                found.append(datetime.date(year, month, int(self.random.integers(1, 29))))
            else:
                found.append(_FIRST_DAY + datetime.timedelta(days=int(self.random.integers(span))))
        return found

    def _one_of(self, pool: list[Any]) -> Any:
        return pool[int(self.random.integers(len(pool)))]


def _tables(random: np.random.Generator, scale: float) -> dict[str, pa.Table]:
    maker = _Maker(random, _SIZES)
    found: dict[str, pa.Table] = {}
    for name, schema in schemas().items():
        special = _SPECIAL.get(name)
        rows = _SIZES.get(name, 0)
        if special is not None:
            found[name] = _table(schema, special())
        elif rows:
            found[name] = _table(schema, _dimension(maker, name, schema, rows + len(LAST_ROWS.get(name, ()))))
    for name, count in _SALES.items():
        schema, returns = schemas()[name], name.replace("sales", "returns")
        sales = _sales(maker, name, schema, int(count * scale) + len(SALES[name]))
        for row, made in enumerate(SALES[name]):
            order = {"ticket_number" if name == "store_sales" else "order_number": _MADE_ORDERS + row}
            _put(sales, int(count * scale) + row, _prefixed(schema, order | made))
        found[name] = _table(schema, sales)
        found[returns] = _table(schemas()[returns], _returns(maker, returns, found[name], schemas()[returns]))
    found["inventory"] = _table(schemas()["inventory"], _inventory(maker, int(_INVENTORY * scale)))
    return {name: found[name] for name in schemas()}


def _inventory(maker: _Maker, rows: int) -> dict[str, list[Any]]:
    """Half of it in the first two months of 2001, where the quantities of an item vary much."""
    random = maker.random
    early = random.random(rows) < 0.5
    days = [
        datetime.date(2001, 1, 1) + datetime.timedelta(days=int(random.integers(59))) if e else d
        for d, e in zip(maker.days(rows), early, strict=True)
    ]
    items = np.where(early, random.integers(1, 9, rows), maker.keys("item", rows, holes=False))
    quantities = np.where(
        early & (random.random(rows) < 0.7), random.integers(0, 9, rows), random.integers(0, 600, rows)
    )
    columns = {
        "inv_date_sk": [_sk(d) for d in days],
        "inv_item_sk": items.tolist(),
        "inv_warehouse_sk": maker.keys("warehouse", rows),
        "inv_quantity_on_hand": maker.holes(quantities.tolist()),
    }
    made = LAST_ROWS["inventory"]
    for row, values in enumerate(made):
        _put(columns, rows - len(made) + row, {f"inv_{column}": value for column, value in values.items()})
    return columns


def _table(schema: pa.Schema, columns: dict[str, list[Any]]) -> pa.Table:
    arrays = []
    for field in schema:
        values = columns[field.name]
        if pa.types.is_decimal(field.type):
            values = [None if v is None else decimal.Decimal(v).quantize(_CENT) for v in values]
        elif pa.types.is_integer(field.type):
            values = [None if v is None else int(v) for v in values]
        arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=schema)


def _sk(day: datetime.date) -> int:
    return _FIRST_SK + (day - _EPOCH).days


def _dimension(maker: _Maker, name: str, schema: pa.Schema, rows: int) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for position, field in enumerate(schema):
        short = field.name.split("_", 1)[1]
        if position == 0:
            columns[field.name] = list(range(1, rows + 1))
        elif position == 1 and short.endswith("_id"):
            columns[field.name] = [f"{name[:4].upper()}{i // 2:012d}" for i in range(rows)]  # two versions of each
        elif short.endswith("date_sk"):
            columns[field.name] = maker.holes([_sk(d) for d in maker.days(rows)])
        elif short.endswith("_sk"):
            columns[field.name] = maker.keys(_dimension_of(short), rows)
        else:
            columns[field.name] = maker.column(field.name, field.type, rows)
    if name == "income_band":
        columns["ib_lower_bound"] = [i * 10000 + (i > 0) for i in range(rows)]
        columns["ib_upper_bound"] = [(i + 1) * 10000 for i in range(rows)]
        columns["ib_lower_bound"][5], columns["ib_upper_bound"][5] = 38128, 38128
    if name == "customer":
        columns["c_customer_id"] = [f"CUST{i:012d}" for i in range(rows)]
    if name in ("customer_address", "store", "warehouse", "call_center", "web_site"):
        prefix = schema.names[0].split("_")[0]
        columns[f"{prefix}_gmt_offset"] = [-5 if i % 3 else -6 for i in range(rows)]
    for row, made in enumerate(FIRST_ROWS.get(name, ())):
        _put(columns, row, made)
    for row, made in enumerate(LAST_ROWS.get(name, ())):
        _put(columns, _SIZES[name] + row, made)
    return columns


def _prefixed(schema: pa.Schema, made: Made) -> Made:
    prefix = schema.names[0].split("_")[0]
    return {f"{prefix}_{column}": value for column, value in made.items()}


def _put(columns: dict[str, list[Any]], row: int, made: Made) -> None:
    """Give a row the values that were made for it; days stand for their keys."""
    for column, value in made.items():
        columns[column][row] = _sk(value) if isinstance(value, datetime.date) and column.endswith("_sk") else value


def _dimension_of(column: str) -> str:
    return next(table for part, table in _DIMENSION_OF.items() if part in column)


def _date_dim() -> dict[str, list[Any]]:
    days = [_FIRST_DAY + datetime.timedelta(days=i) for i in range((_LAST_DAY - _FIRST_DAY).days + 1)]
    quarters = [(d.month - 1) // 3 + 1 for d in days]
    weeks = [((d - _EPOCH).days + 1) // 7 + 1 for d in days]
    columns: dict[str, list[Any]] = {
        "d_date_sk": [_sk(d) for d in days],
        "d_date_id": [f"AAAA{_sk(d):012d}" for d in days],
        "d_date": list(days),
        "d_month_seq": [(d.year - 1900) * 12 + d.month - 1 for d in days],
        "d_week_seq": weeks,
        "d_quarter_seq": [(d.year - 1900) * 4 + q - 1 for d, q in zip(days, quarters, strict=True)],
        "d_year": [d.year for d in days],
        "d_dow": [d.isoweekday() % 7 for d in days],
        "d_moy": [d.month for d in days],
        "d_dom": [d.day for d in days],
        "d_qoy": quarters,
        "d_day_name": [d.strftime("%A") for d in days],
        "d_quarter_name": [f"{d.year}Q{q}" for d, q in zip(days, quarters, strict=True)],
        "d_holiday": ["Y" if (d.month, d.day) in ((1, 1), (12, 25)) else "N" for d in days],
        "d_weekend": ["Y" if d.isoweekday() > 5 else "N" for d in days],
        "d_first_dom": [_sk(d.replace(day=1)) for d in days],
        "d_same_day_ly": [_sk(d) - 365 for d in days],
        "d_same_day_lq": [_sk(d) - 91 for d in days],
    }
    columns |= {"d_fy_year": columns["d_year"], "d_fy_quarter_seq": columns["d_quarter_seq"], "d_fy_week_seq": weeks}
    columns |= {"d_following_holiday": columns["d_holiday"], "d_last_dom": columns["d_first_dom"]}
    return columns | {f"d_current_{part}": ["N"] * len(days) for part in ("day", "week", "month", "quarter", "year")}


def _time_dim() -> dict[str, list[Any]]:
    seconds = list(range(0, 86400, 600))
    hours = [s // 3600 for s in seconds]
    meals = {6: "breakfast", 7: "breakfast", 8: "breakfast", 12: "lunch", 13: "lunch", 18: "dinner", 19: "dinner"}
    return {
        "t_time_sk": seconds,
        "t_time_id": [f"TIME{s:012d}" for s in seconds],
        "t_time": seconds,
        "t_hour": hours,
        "t_minute": [s // 60 % 60 for s in seconds],
        "t_second": [s % 60 for s in seconds],
        "t_am_pm": ["AM" if h < 12 else "PM" for h in hours],
        "t_shift": [("third", "first", "second")[h // 8] for h in hours],
        "t_sub_shift": [("night", "morning", "afternoon", "evening")[h // 6] for h in hours],
        "t_meal_time": [meals.get(h) for h in hours],
    }


_SPECIAL: dict[str, Callable[[], dict[str, list[Any]]]] = {"date_dim": _date_dim, "time_dim": _time_dim}


def _sales(maker: _Maker, name: str, schema: pa.Schema, rows: int) -> dict[str, list[Any]]:
    """Rows of orders, most of few rows, some of 17: customer, place and day are those of the order."""
    random = maker.random
    sizes = np.where(random.random(rows) < 0.03, 17, random.integers(1, 4, rows))
    order = np.repeat(np.arange(rows), sizes)[:rows]
    orders = int(order[-1]) + 1
    days = maker.days(orders)
    columns: dict[str, list[Any]] = {}
    for field in schema:
        short = field.name.split("_", 1)[1]
        if short.endswith(("item_sk", "promo_sk", "warehouse_sk")):
            columns[field.name] = maker.keys(_dimension_of(short), rows, holes=short != "item_sk")
            continue
        if short == "sold_date_sk":
            values = maker.holes([_sk(d) for d in days])
        elif short == "ship_date_sk":
            late = random.integers(1, 130, orders)
            values = maker.holes([_sk(d) + int(n) for d, n in zip(days, late, strict=True)])
        elif short == "sold_time_sk":
            hours = random.choice([7, 8, 9, 10, 11, 12, 13, 19, 20], orders) * 3600
            values = maker.holes((hours + random.integers(0, 6, orders) * 600).tolist())
        elif short.endswith("_sk"):
            values = maker.keys(_dimension_of(short), orders)
        elif short in ("ticket_number", "order_number"):
            values = list(range(1, orders + 1))
        else:
            continue
        columns[field.name] = [values[i] for i in order]
    prefix = schema.names[0].split("_")[0]
    return columns | _money(maker, prefix, schema, rows)


def _money(maker: _Maker, prefix: str, schema: pa.Schema, rows: int) -> dict[str, list[Any]]:
    random = maker.random
    quantity = random.integers(1, 101, rows)
    wholesale = random.integers(100, 10000, rows)
    price = wholesale * random.integers(100, 200, rows) // 100
    sales = price * random.integers(20, 100, rows) // 100
    few = random.integers(1, 12, rows)  # so that some totals lie within the ranges that queries ask for
    values = {
        "quantity": quantity * 100,
        "wholesale_cost": wholesale,
        "list_price": price,
        "sales_price": sales,
        "ext_discount_amt": (price - sales) * few,
        "ext_sales_price": sales * few,
        "ext_wholesale_cost": wholesale * few,
        "ext_list_price": price * few,
        "ext_tax": sales * few // 20,
        "coupon_amt": np.where(random.random(rows) < 0.7, 0, sales),
        "ext_ship_cost": price * few // 10,
        "net_paid": sales * few,
        "net_paid_inc_tax": sales * few * 21 // 20,
        "net_paid_inc_ship": sales * few * 11 // 10,
        "net_paid_inc_ship_tax": sales * few * 23 // 20,
        "net_profit": (sales - wholesale * 6 // 10) * few,
    }
    return {
        f"{prefix}_{name}": maker.holes([decimal.Decimal(int(c)) / 100 for c in cents])
        for name, cents in values.items()
        if f"{prefix}_{name}" in schema.names
    }


def _returns(maker: _Maker, name: str, sales: pa.Table, schema: pa.Schema) -> dict[str, list[Any]]:
    """Returns of some sales, of the same item, order and mostly the same customer, some weeks later.

    The last ones were made for queries, and are of sales that were made for them.
    """
    random = maker.random
    made = RETURNED[name]
    drawn = sales.num_rows - len(SALES[name.replace("returns", "sales")])
    count = int(drawn * _RETURNED) + len(made)
    of = np.concatenate([random.choice(drawn, count - len(made), replace=False), [drawn + n for n, _ in made]])
    sold = sales.take(pa.array(of.astype(int))).to_pydict()
    prefix = sales.schema.names[0].split("_")[0]
    least = _least_quantities(sales, prefix)
    columns: dict[str, list[Any]] = {}
    for field in schema:
        short = field.name.split("_", 1)[1]
        same = next((sold[f"{prefix}_{s}"] for s in _sold_as(short) if f"{prefix}_{s}" in sold), None)
        if short == "returned_date_sk":
            later = random.integers(1, 60, count)
            days = zip(sold[f"{prefix}_sold_date_sk"], later, strict=True)
            columns[field.name] = [None if d is None else d + int(n) for d, n in days]
        elif short == "return_quantity":  # never all of it: q75 divides by what is left
            both = zip(*_line(sold, prefix), sold[f"{prefix}_quantity"], strict=True)
            columns[field.name] = [None if q is None else least[order, item] // 2 for order, item, q in both]
        elif same is not None:
            columns[field.name] = same
        elif short.endswith("time_sk"):
            columns[field.name] = maker.holes((random.integers(0, 144, count) * 600).tolist())
        elif short.endswith("_sk"):
            columns[field.name] = maker.keys(_dimension_of(short), count)
        else:
            cents = random.integers(1, 40000, count) * np.where(random.random(count) < 0.2, 50, 1)
            amounts = [decimal.Decimal(int(c)) / 100 for c in cents]
            columns[field.name] = maker.holes(amounts)
    for row, (_, values) in enumerate(made):
        _put(columns, count - len(made) + row, _prefixed(schema, values))
    return columns


def _line(sold: dict[str, list[Any]], prefix: str) -> tuple[list[Any], list[Any]]:
    """Orders and items, by which a return finds its sale."""
    order = f"{prefix}_{'ticket' if prefix == 'ss' else 'order'}_number"
    return sold[order], sold[f"{prefix}_item_sk"]


def _least_quantities(sales: pa.Table, prefix: str) -> dict[tuple[int, int], int]:
    """The least quantity of an item in an order, where it may be sold twice: each joins the returns of both."""
    sold = sales.to_pydict()
    least: dict[tuple[int, int], int] = {}
    for order, item, quantity in zip(*_line(sold, prefix), sold[f"{prefix}_quantity"], strict=True):
        if quantity is not None:
            least[order, item] = min(quantity, least.get((order, item), quantity))
    return least


def _sold_as(column: str) -> tuple[str, ...]:
    """The column of a sale that a column of its return repeats."""
    for who in ("refunded_", "returning_"):
        if column.startswith(who):
            return (column.replace(who, "bill_"),)
    return (column,)
