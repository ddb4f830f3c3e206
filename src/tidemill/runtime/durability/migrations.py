"""Roots of older formats, read as those of the present one: one function for each version of the format.

A function changes plain JSON as one version wrote it into JSON as the next one does, and calls nothing that may change
later: neither plans nor their codec. ``docs/on-disk-format.md`` says how to add one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tidemill.errors import TidemillError
from tidemill.state.versions.manifest import FORMAT_VERSION, Manifest

Json = dict[str, Any]


def migrated(manifest: Manifest) -> Manifest:
    """A manifest as the present version would have written it. TM1002 when its views are not understood."""
    catalog = manifest.catalog
    try:
        for version in range(manifest.format, FORMAT_VERSION):
            catalog = _STEPS[version](catalog) if catalog else catalog
    except (KeyError, TypeError, ValueError) as error:
        raise TidemillError(
            "TM1002",
            "this root was written by another version of Tidemill",
            got=f"catalog of format {manifest.format}: {error!r}",
            hint="open it with the version that wrote it; nothing was changed",
        ) from error
    return replace(manifest, catalog=catalog, format=FORMAT_VERSION)


def _named_nodes(data: Json) -> Json:
    """6 to 7: views store the names of their nodes, which were hashes of the nodes before, and read plans.

    Read plans stay empty here: they are made when the root is opened for writing.
    """
    catalog = data["catalog"]
    tables = {t["name"]: t["uid"] for t in catalog["tables"]}
    present = {v["name"]: v["uid"] for v in (*catalog["views"], *catalog.get("pending", ()))}
    former = catalog.get("former", [])

    def then(until: int) -> Mapping[str, str]:
        """The uids that names had before an epoch."""
        views = dict(present)
        for other in sorted(former, key=lambda f: -int(f["until"])):
            if other["until"] >= until:
                views[other["view"]["name"]] = other["view"]["uid"]
        return {**tables, **views}

    def named(view: Json, uids: Mapping[str, str]) -> Json:
        return {**view, "node_names": list(_names_6(view["root"], uids)), "read": None}

    changed = {k: [named(v, {**tables, **present}) for v in catalog.get(k, ())] for k in ("views", "pending")}
    changed["former"] = [{**f, "view": named(f["view"], then(f["until"]))} for f in former]
    return {**data, "catalog": {**catalog, **changed}}


def _names_6(node: Json, uids: Mapping[str, str]) -> Iterator[str]:
    """The names of a node of format 6 and of all below it."""
    yield _hash_6(_over_6(node, uids))
    if node["$"] == "Window":
        child = _hash_6(_over_6(node["child"], uids))
        partition = list(dict.fromkeys(node["partition"]))
        ordered = {k["column"]: k for k in reversed(node["order"]) if k["column"] not in partition}
        keys = [ordered[c] for c in dict.fromkeys(k["column"] for k in node["order"]) if c in ordered]
        yield _hash_6([child, partition, keys])
        limits = [node["limit"], node.get("limited", "row_number")]
        yield _hash_6([child, partition, keys, node["calls"], *limits])
    for below in _below_6(node):
        yield from _names_6(below, uids)


def _hash_6(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _below_6(node: Json) -> list[Json]:
    match node["$"]:
        case "Scan":
            return []
        case "Union":
            return list(node["children"])
        case "Join" | "SemiJoin":
            return [node["left"], node["right"]]
        case "Recursion":
            parts = [part for path in node["paths"] for part in path["parts"] if part["$"] == "StepJoin"]
            return [node["anchor"], *(part["relation"] for part in parts)]
        case "Aggregate" if node.get("pairs"):
            return [node["child"], node["pairs"]["left"], node["pairs"]["right"]]
        case "Aggregate":
            return [node["child"], *node.get("parts", ())]
    return [node["child"]]


def _over_6(value: Any, uids: Mapping[str, str]) -> Any:
    """A plan over uids in place of names."""
    if isinstance(value, list):
        return [_over_6(v, uids) for v in value]
    if not isinstance(value, dict):
        return value
    if value.get("$") == "Scan":
        return {**value, "relation": uids[value["relation"]]}
    return {k: _over_6(v, uids) for k, v in value.items()}


_STEPS: Mapping[int, Callable[[Json], Json]] = {6: _named_nodes}
"""By the version that wrote what a function reads."""
