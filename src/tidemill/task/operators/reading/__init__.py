"""Operators at the head of the pipelines of a task: they read files, or give rows that are in memory."""
