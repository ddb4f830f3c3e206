"""The 99 queries and 24 tables of TPC-DS."""
