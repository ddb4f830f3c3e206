"""Names that plans of tasks have by default."""

from __future__ import annotations

INPUT = "input"
"""The name of a scan without one, and of the node itself in SQL."""
