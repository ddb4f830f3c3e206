"""Rows of the data files of Delta and Iceberg tables."""
