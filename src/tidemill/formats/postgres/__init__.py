"""Rows of tables of PostgreSQL, as they wait in files."""
