"""Strategies to begin with, by their names on the command line."""
