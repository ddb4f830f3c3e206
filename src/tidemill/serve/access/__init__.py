"""Whom a server lets in, and what it takes from them."""
