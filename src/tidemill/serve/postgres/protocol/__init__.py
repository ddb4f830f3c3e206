"""Bytes and messages of PostgreSQL's protocol: nothing here knows what a statement means."""
