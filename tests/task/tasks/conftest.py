"""Fixtures of tests of tasks."""

from __future__ import annotations

import random

import pytest


@pytest.fixture
def rng() -> random.Random:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    return random.Random(seed)
