"""Operators of single rows: they hold nothing at a barrier."""
