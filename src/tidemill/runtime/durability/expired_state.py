"""What state is expired, given the watermarks of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemill.plan.lowering.analysis.event_time import Lag
from tidemill.state.versions.expiry import Expiry


def expired_state(
    retention: Mapping[str, tuple[Lag, ...]], watermark: Callable[[str], int | None]
) -> dict[str, tuple[Expiry, ...]]:
    """By state table the rows that nothing admitted from now on can touch.

    Parameters
    ----------
    retention : mapping
        By state table how far behind watermarks its rows may be looked up.
    watermark : callable
        The watermark of a table in microseconds, None when there is none yet.
    """
    found = {}
    for table, lags in retention.items():
        conditions = []
        for lag in lags:
            times = [(watermark(name), behind) for name, behind in lag.bounds]
            known = [time - behind for time, behind in times if time is not None]
            if len(known) == len(times):
                conditions.append(Expiry(lag.place.column, lag.place.field, min(known)))
        if conditions and len(conditions) == len(lags):
            found[table] = tuple(conditions)
    return found
