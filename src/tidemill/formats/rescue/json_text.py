"""Texts as JSON."""

from __future__ import annotations

import json


def json_text(text: str) -> str:
    """A text as JSON, in UTF-8 where that can hold it."""
    found = json.dumps(text, ensure_ascii=False)
    return json.dumps(text) if any("\ud800" <= c <= "\udfff" for c in found) else found
