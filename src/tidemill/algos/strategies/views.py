"""Queries that several strategies follow."""

from __future__ import annotations

TOP = "top_of_book"
TOP_QUERY = """
SELECT MAX(CASE WHEN side = 'B' THEN price END) AS bid, MIN(CASE WHEN side = 'S' AND price > 0 THEN price END) AS ask
FROM orders"""
"""The best prices; market orders, which have none, do not rest."""

VWAP_BIDS, VWAP_ASKS = "vwap_bids", "vwap_asks"
_VWAP = """
SELECT SUM(o.price * o.volume) AS value, SUM(o.volume) AS volume FROM {side} o
WHERE 0.25 * (SELECT SUM(total.volume) FROM {side} total)
      > (SELECT COALESCE(SUM(better.volume), 0) FROM {side} better WHERE better.price {is_better} o.price)"""
VWAP_BIDS_QUERY = _VWAP.format(side="bids", is_better=">")
VWAP_ASKS_QUERY = _VWAP.format(side="asks", is_better="<")
"""Value and volume of a side's best quarter of the volume."""
