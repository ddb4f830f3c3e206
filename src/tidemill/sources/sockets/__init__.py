"""Sockets and standard input, read by one thread into a durable spool."""
