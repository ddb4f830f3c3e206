"""28 more views on the tables of TPC-H, from 12 templates with other columns and filters.

What they compute is exact (integers, decimals, strings) and decided by the rows, ties included.
"""

from __future__ import annotations

from collections.abc import Mapping

_LINES = """
SELECT {key}, COUNT(*) AS n, SUM(l_quantity) AS quantity, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem WHERE {where} GROUP BY {key}"""
_ORDERS = """
SELECT {keys}, COUNT(*) AS n, AVG(o_totalprice) AS price FROM orders WHERE {where} GROUP BY {keys}"""
_EXTREMES = """
SELECT {key}, MIN({value}) AS least, MAX({value}) AS most FROM {table} GROUP BY {key}"""
_DISTINCT = """
SELECT {key}, COUNT(DISTINCT {value}) AS n FROM lineitem GROUP BY {key}"""
_CUSTOMERS = """
SELECT {key}, COUNT(*) AS n, SUM(o_totalprice) AS price
FROM orders JOIN customer ON o_custkey = c_custkey WHERE {where} GROUP BY {key}"""
_NATIONS = """
SELECT n_name, {key}, SUM(l_quantity) AS quantity
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN {party} JOIN nation ON {prefix}_nationkey = n_nationkey
WHERE {where} GROUP BY n_name, {key}"""
_ROWS = """
SELECT o_orderkey, o_orderdate, o_totalprice, c_name, c_phone
FROM orders JOIN customer ON o_custkey = c_custkey
WHERE c_nationkey = {nation} AND o_totalprice > {price}"""
_OUTER = """
SELECT {key}, COUNT(*) AS n, COUNT({counted}) AS matched
FROM {left} LEFT JOIN {right} GROUP BY {key}"""
_SUBQUERY = """
SELECT {key}, COUNT(*) AS n FROM {table} WHERE {condition} GROUP BY {key}"""
_ABOVE = """
SELECT {key}, COUNT(*) AS n, SUM({value}) AS total
FROM {table} WHERE {value} > (SELECT {what}({value}) * {share} FROM {table}) GROUP BY {key}"""
_TOP = """
SELECT {columns} FROM {table} WHERE {where} ORDER BY {order} LIMIT {limit}"""
_WINDOW = """
SELECT * FROM (SELECT {columns}, {function} OVER (PARTITION BY {partition} ORDER BY {order}) AS place FROM {table})
WHERE {where}"""

_USED: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "by_flag": (_LINES, {"key": "l_returnflag", "where": "l_shipdate < date '1997-01-01'"}),
    "modes": (_LINES, {"key": "l_shipmode", "where": "l_discount > 0.05"}),
    "by_supplier": (_LINES, {"key": "l_suppkey", "where": "l_shipmode = 'AIR'"}),
    "by_priority": (_ORDERS, {"keys": "o_orderpriority, o_orderstatus", "where": "o_totalprice > 1000"}),
    "by_month": (_ORDERS, {"keys": "year(o_orderdate), month(o_orderdate)", "where": "o_orderstatus = 'F'"}),
    "supplier_dates": (_EXTREMES, {"key": "l_suppkey", "value": "l_receiptdate", "table": "lineitem"}),
    "customer_prices": (_EXTREMES, {"key": "o_custkey", "value": "o_totalprice", "table": "orders"}),
    "parts_of_supplier": (_DISTINCT, {"key": "l_suppkey", "value": "l_partkey"}),
    "suppliers_by_mode": (_DISTINCT, {"key": "l_shipmode", "value": "l_suppkey"}),
    "segments": (_CUSTOMERS, {"key": "c_mktsegment", "where": "o_orderstatus = 'O'"}),
    "segments_urgent": (_CUSTOMERS, {"key": "c_mktsegment", "where": "o_orderpriority = '1-URGENT'"}),
    "nations": (_CUSTOMERS, {"key": "c_nationkey", "where": "c_acctbal > 0"}),
    "buyers": (
        _NATIONS,
        {
            "key": "l_shipmode",
            "party": "customer ON o_custkey = c_custkey",
            "prefix": "c",
            "where": "l_returnflag = 'R'",
        },
    ),
    "sellers": (
        _NATIONS,
        {
            "key": "o_orderpriority",
            "party": "supplier ON l_suppkey = s_suppkey",
            "prefix": "s",
            "where": "l_linestatus = 'O'",
        },
    ),
    "large_orders": (_ROWS, {"nation": 3, "price": 150_000}),
    "small_orders": (_ROWS, {"nation": 7, "price": 50_000}),
    "idle_customers": (
        _OUTER,
        {
            "key": "c_mktsegment",
            "counted": "o_orderkey",
            "left": "customer",
            "right": "orders ON c_custkey = o_custkey AND o_orderstatus = 'F'",
        },
    ),
    "offers": (
        _OUTER,
        {
            "key": "p_brand",
            "counted": "ps_suppkey",
            "left": "part",
            "right": "partsupp ON p_partkey = ps_partkey AND ps_availqty < 500",
        },
    ),
    "late_orders": (
        _SUBQUERY,
        {
            "key": "o_orderstatus",
            "table": "orders",
            "condition": "EXISTS (SELECT * FROM lineitem "
            "WHERE l_orderkey = o_orderkey AND l_receiptdate > l_commitdate)",
        },
    ),
    "never_ordered": (
        _SUBQUERY,
        {
            "key": "c_nationkey",
            "table": "customer",
            "condition": "NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)",
        },
    ),
    "from_small_suppliers": (
        _SUBQUERY,
        {
            "key": "ps_suppkey",
            "table": "partsupp",
            "condition": "ps_suppkey IN (SELECT s_suppkey FROM supplier WHERE s_acctbal < 0)",
        },
    ),
    "dear_parts": (
        _ABOVE,
        {"key": "p_mfgr", "table": "part", "value": "p_retailprice", "what": "AVG", "share": 1.2},
    ),
    "rich_customers": (
        _ABOVE,
        {"key": "c_mktsegment", "table": "customer", "value": "c_acctbal", "what": "MAX", "share": 0.5},
    ),
    "dearest_orders": (
        _TOP,
        {
            "columns": "o_orderkey, o_totalprice, o_orderdate",
            "table": "orders",
            "where": "o_orderstatus = 'O'",
            "order": "o_totalprice DESC, o_orderkey",
            "limit": 100,
        },
    ),
    "newest_lines": (
        _TOP,
        {
            "columns": "l_orderkey, l_linenumber, l_shipdate",
            "table": "lineitem",
            "where": "l_shipmode = 'SHIP'",
            "order": "l_shipdate DESC, l_orderkey, l_linenumber",
            "limit": 50,
        },
    ),
    "last_orders": (
        _WINDOW,
        {
            "columns": "o_custkey, o_orderkey, o_orderdate",
            "function": "row_number()",
            "partition": "o_custkey",
            "order": "o_orderdate DESC, o_orderkey",
            "table": "orders",
            "where": "place <= 2",
        },
    ),
    "richest": (
        _WINDOW,
        {
            "columns": "c_nationkey, c_custkey, c_acctbal",
            "function": "rank()",
            "partition": "c_nationkey",
            "order": "c_acctbal DESC, c_custkey",
            "table": "customer",
            "where": "place <= 5",
        },
    ),
    "spent_so_far": (
        _WINDOW,
        {
            "columns": "o_custkey, o_orderkey",
            "function": "SUM(o_totalprice)",
            "partition": "o_custkey",
            "order": "o_orderdate, o_orderkey",
            "table": "orders",
            "where": "o_custkey % 10 = 1",
        },
    ),
}

MORE_VIEWS = {name: template.format_map(values).strip() for name, (template, values) in _USED.items()}
"""SQL by name."""
