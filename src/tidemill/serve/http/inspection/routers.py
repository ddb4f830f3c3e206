"""The routes of this folder."""

from __future__ import annotations

from tidemill.serve.http.inspection import first_rows, plans, sources, state, vocabulary

ROUTERS = tuple(part.router for part in (first_rows, sources, state, plans, vocabulary))
