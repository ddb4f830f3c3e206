"""Warns of a certificate that will soon expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.logs.events import CERTIFICATE_EXPIRES
from tidemill.serve.logs.server_log import ServerLog

_SOON = timedelta(days=14)
_BETWEEN = timedelta(days=1)


class CertificateWatch:
    """Notes in the log, once a day, that fewer than 14 days of the server's certificate are left.

    Raises
    ------
    TidemillError
        TM8022 when the certificate cannot be used.
    """

    def __init__(self, settings: ServerSettings, log: ServerLog) -> None:
        self._until, self._log = settings.certificate_expires_at(), log
        self._next = datetime.min.replace(tzinfo=UTC)

    def look(self, now: datetime | None = None) -> None:
        """Note it if it is time to; ``now`` is with a time zone."""
        now = now or datetime.now(UTC)
        if self._until is not None and now >= self._next and self._until - now < _SOON:
            self._next = now + _BETWEEN
            self._log.note(CERTIFICATE_EXPIRES, until=self._until.isoformat())
