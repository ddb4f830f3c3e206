"""Plans of tasks: what is read, and what becomes of the rows."""
