"""The 22 queries of TPC-H with their substitution parameters.

Deviations from the specification: ORDER BY with LIMIT is completed by a key where its columns may tie, so that the
result is decided by the rows; Q15 is written with WITH; extended column names are given with AS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_DIRECTORY = Path(__file__).with_name("queries")
NAMES = tuple(path.stem for path in sorted(_DIRECTORY.glob("q*.sql")))

Parameters = Mapping[str, Mapping[str, object]]

VALIDATION: Parameters = {
    "q01": {"delta": 90},
    "q02": {"size": 15, "type": "BRASS", "region": "EUROPE"},
    "q03": {"segment": "BUILDING", "date": "1995-03-15"},
    "q04": {"date": "1993-07-01"},
    "q05": {"region": "ASIA", "date": "1994-01-01"},
    "q06": {"date": "1994-01-01", "discount": "0.06", "quantity": 24},
    "q07": {"nation1": "FRANCE", "nation2": "GERMANY"},
    "q08": {"nation": "BRAZIL", "region": "AMERICA", "type": "ECONOMY ANODIZED STEEL"},
    "q09": {"color": "green"},
    "q10": {"date": "1993-10-01"},
    "q11": {"nation": "GERMANY", "fraction": "0.0001"},
    "q12": {"mode1": "MAIL", "mode2": "SHIP", "date": "1994-01-01"},
    "q13": {"word1": "special", "word2": "requests"},
    "q14": {"date": "1995-09-01"},
    "q15": {"date": "1996-01-01"},
    "q16": {
        "brand": "Brand#45",
        "type": "MEDIUM POLISHED",
        "sizes": "49, 14, 23, 45, 19, 3, 36, 9",
        "word1": "Customer",
        "word2": "Complaints",
    },
    "q17": {"brand": "Brand#23", "container": "MED BOX"},
    "q18": {"quantity": 300},
    "q19": {"brand1": "Brand#12", "quantity1": 1, "size1": 5}
    | {"brand2": "Brand#23", "quantity2": 10, "size2": 10}
    | {"brand3": "Brand#34", "quantity3": 20, "size3": 15},
    "q20": {"color": "forest", "date": "1994-01-01", "nation": "CANADA"},
    "q21": {"nation": "SAUDI ARABIA"},
    "q22": {"codes": "'13', '31', '23', '29', '30', '18', '17'"},
}
"""The values with which the specification validates answers."""


TINY: Parameters = {
    "q02": {"size": "14 + p_size % 2"},
    "q07": {"nation1": "CANADA", "nation2": "INDIA"},
    "q08": {"nation": "CANADA", "type": "SMALL POLISHED STEEL"},
    "q11": {"nation": "MOROCCO", "fraction": "0.01"},
    "q16": {"word1": "furiously", "word2": ""},
    "q17": {"brand": "Brand#21", "container": "WRAP DRUM"},
    "q18": {"quantity": 220},
    "q19": {"brand1": "Brand#53", "quantity1": 14, "size1": 50}
    | {"brand2": "Brand#32", "quantity2": 17, "size2": 50}
    | {"brand3": "Brand#53", "quantity3": 24, "size3": 50},
    "q20": {"color": "b", "nation": "CANADA"},
    "q21": {"nation": "INDIA"},
}
"""What differs so that all queries have rows at scale factor 0.002, where there are 20 suppliers."""


KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "customer": ("c_custkey",),
    "supplier": ("s_suppkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
"""Tables and their primary keys."""


def query(name: str, parameters: Parameters = VALIDATION) -> str:
    """The SQL of a query; ``parameters`` has what differs from the validation parameters, by query."""
    values = {**VALIDATION[name], **parameters.get(name, {})}
    return (_DIRECTORY / f"{name}.sql").read_text().format_map(values).strip()


def tables(sql: str) -> tuple[str, ...]:
    """The tables that a query names."""
    words = set(re.findall(r"\w+", sql))
    return tuple(name for name in KEYS if name in words)
