"""Operators of joins: of changes with what either side keeps, or by lookup."""
