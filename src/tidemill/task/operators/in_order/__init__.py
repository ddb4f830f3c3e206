"""Operators of tasks that rely on the order of rows, or restore it."""
