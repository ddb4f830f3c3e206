"""Operators of aggregates."""
