"""The log of a server: events, entries in memory, lines on a stream; without secrets and without rows."""
