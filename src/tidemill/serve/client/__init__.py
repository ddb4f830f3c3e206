"""The Python client of a server; it needs neither Spark nor the root."""
