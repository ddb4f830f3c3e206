"""Rows decoded by Python source that a user gives: in a process of its own, with limits."""
