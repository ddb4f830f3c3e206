"""Rows of the files of Delta tables."""
