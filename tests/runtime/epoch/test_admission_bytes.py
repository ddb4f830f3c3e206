"""Back-pressure on admission."""

from __future__ import annotations

from tidemill.runtime.epoch.admission import Admission


def test_spilling_halves_what_was_admitted() -> None:
    admission = Admission(1 << 20, 1 << 10)
    admission.sealed(admitted=400_000, spilled=1)
    assert admission.bytes == 200_000
    admission.sealed(admitted=200_000, spilled=50)
    assert admission.bytes == 100_000


def test_never_below_the_least_nor_above_the_most() -> None:
    admission = Admission(1 << 20, 1 << 10)
    for _ in range(30):
        admission.sealed(admitted=admission.bytes, spilled=1)
    assert admission.bytes == 1 << 10
    for _ in range(60):
        admission.sealed(admitted=admission.bytes, spilled=0)
    assert admission.bytes == 1 << 20


def test_limits_below_the_least() -> None:
    admission = Admission(100, 1 << 10)
    admission.sealed(admitted=100, spilled=1)
    assert admission.bytes == 100


def test_an_epoch_of_history_alone_admits_less_next_time() -> None:
    admission = Admission(1 << 20, 1 << 10)
    admission.sealed(admitted=0, spilled=1)
    assert admission.bytes == 1 << 10
