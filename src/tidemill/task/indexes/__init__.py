"""What rows can be looked up in by keys: tables in memory, views, and servers."""
