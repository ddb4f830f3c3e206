"""Traces of a simulated exchange, as input for order-book tables."""
