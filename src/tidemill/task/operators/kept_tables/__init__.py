"""Operators of tables whose rows are kept: from messages in their order, or by file."""
