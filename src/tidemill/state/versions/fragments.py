"""Parts of manifests that do not change from one to the next, with their JSON."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any


class Fragment(dict[str, Any]):
    """An object of JSON that is not changed once it is made. Its text is written once."""

    @cached_property
    def text(self) -> str:
        """As :func:`to_text` writes it."""
        return json.dumps(self, separators=(",", ":"))


def to_text(value: Any) -> str:
    """``json.dumps`` without spaces. Fragments in objects, and in lists of nothing else, have their text already."""
    if isinstance(value, Fragment):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{to_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list) and value and all(isinstance(inner, Fragment) for inner in value):
        return "[" + ",".join(inner.text for inner in value) + "]"
    return json.dumps(value, separators=(",", ":"))
