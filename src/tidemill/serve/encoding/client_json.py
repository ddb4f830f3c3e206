"""JSON that clients send."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text, in which every text can be written as UTF-8.

    Raises
    ------
    ValueError
        For what is no JSON, what is nested too deeply to be read, and half of a surrogate pair (``"\\ud800"``).
    """
    try:
        found = json.loads(text)
        written = json.dumps(found, ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    try:
        written.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(written[error.start]):04x}"
        raise ValueError(f"{half} is half of a surrogate pair, and so no character") from error
    return found
