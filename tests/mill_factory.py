"""The type of the fixture ``mill_factory``."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.mill import Mill

MillFactory = Callable[..., Mill]
"""``mill_factory(name="root", **settings)`` opens a mill on the session of the test process."""
