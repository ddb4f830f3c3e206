"""Operators of rows in an order: ORDER BY with LIMIT, and windows."""
