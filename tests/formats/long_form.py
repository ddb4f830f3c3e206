"""How often random tests try: a third as often in the suite as in the long form, ``make examples``."""

from __future__ import annotations

import os

from hypothesis import settings

_PERCENT = int(os.environ.get("TIDEMILL_EXAMPLES", "35"))


def times(most: int) -> int:
    """How often, where the long form does so ``most`` times."""
    return max(most * _PERCENT // 100, 1)


def examples(most: int) -> settings:
    """Hypothesis's settings for so many examples in the long form."""
    return settings(max_examples=times(most), deadline=None)
