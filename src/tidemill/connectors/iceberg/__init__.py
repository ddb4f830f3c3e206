"""Iceberg tables: which files each snapshot of one has."""
