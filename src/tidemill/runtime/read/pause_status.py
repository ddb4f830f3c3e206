"""Detail and error of views that are paused."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemill.errors import TidemillError
from tidemill.runtime.catalog.catalog import NEXT, View
from tidemill.runtime.catalog.pause import Pause


def paused_detail(pause: Pause) -> str:
    """The detail of a paused view in SHOW VIEWS."""
    detail = f"since epoch {pause.epoch}"
    if pause.because:
        detail += f", with {pause.because}, which it reads"
    if pause.error:
        detail += f": {pause.error.splitlines()[0]}"
    if pause.retry_at is not None:
        at = datetime.fromtimestamp(pause.retry_at / 1000, UTC)
        detail += f"; tried again at {at:%Y-%m-%d %H:%M:%S} UTC (attempt {pause.attempts + 1})"
    return detail


def paused_error(view: View, pause: Pause, kept: bool) -> TidemillError:
    """TM1041: a paused view is read at an epoch after its pause. ``kept``: its last rows can be read."""
    name = view.name.removesuffix(NEXT)
    resumed = pause.because or name
    hint = f"ALTER VIEW {resumed} RESUME"
    if kept and view.complete_since is not None:
        hint = f"read it as of epoch {pause.epoch}, or {hint}"
    return TidemillError("TM1041", "this view is paused", got=f"{name}: {paused_detail(pause)}", hint=hint)
