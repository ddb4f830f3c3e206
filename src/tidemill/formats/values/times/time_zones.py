"""Names of time zones in texts, and the instants of local times, from the time zone data of Python.

A local time that does not exist, or exists twice, is taken by the offset before the change, as Java takes it.
"""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tidemill.zones import NOT_IN_JAVA, clock_of

ZONE_OF_NODE = 0
"""Column of :attr:`ZoneNames.tree`, in place of the byte 0, which is in no name."""
_SHORT_NAMES = {
    "Africa/Johannesburg": ("SAST",),
    "Africa/Lagos": ("WAT", "WAST"),
    "Africa/Maputo": ("CAT", "CAST"),
    "Africa/Nairobi": ("EAT",),
    "America/Argentina/Buenos_Aires": ("ART",),
    "America/Chicago": ("CST", "CDT", "CT"),
    "America/Denver": ("MST", "MDT"),
    "America/Halifax": ("AST", "ADT"),
    "America/Juneau": ("AKST", "AKDT", "AKT"),
    "America/Los_Angeles": ("PST", "PDT", "PT"),
    "America/New_York": ("EST", "EDT", "ET"),
    "America/Sao_Paulo": ("BRT", "BRST"),
    "America/St_Johns": ("NST", "NDT"),
    "Asia/Hong_Kong": ("HKT",),
    "Asia/Karachi": ("PKT",),
    "Asia/Seoul": ("KST",),
    "Asia/Singapore": ("SGT",),
    "Asia/Tokyo": ("JST",),
    "Australia/Perth": ("AWST",),
    "Australia/Sydney": ("AEST", "AEDT", "AET"),
    "Europe/Bucharest": ("EET", "EEST"),
    "Europe/Moscow": ("MSK",),
    "Europe/Paris": ("CET", "CEST", "MET", "MEST"),
    "Atlantic/Canary": ("WET", "WEST"),
    "Pacific/Auckland": ("NZST", "NZDT", "NZT"),
    "Pacific/Honolulu": ("HST",),
}
"""The short names that Java knows and that do not mean several zones (as ``IST`` and ``BST`` do)."""


@dataclass(frozen=True, eq=False)
class ZoneNames:
    """Names as a tree: the longest one that a text begins with is found in one walk.

    Attributes
    ----------
    tree : ndarray of int16, shape (nodes, 128)
        The node behind a node and a byte, in any case of letters, 0 for none; in column ``ZONE_OF_NODE`` the number of
        the zone whose name ends at the node, -1 for none.
    ids : tuple of str
        The zones.
    """

    tree: npt.NDArray[np.int16]
    ids: tuple[str, ...]


@cache
def zone_names(kind: str) -> ZoneNames:
    """The names of a pattern's ``zones``; none for an empty text.

    Raises
    ------
    ValueError
        There is no time zone data.
    """
    ids = spoken_zones("ids") if kind else {}
    if kind and not ids:
        raise ValueError("there is no time zone data here: install the package tzdata")
    numbers = {zone: number for number, zone in enumerate(sorted(set(ids.values())))}
    begun = [-1] + [0] * 127
    tree = [begun.copy()]
    for name, zone in sorted(spoken_zones(kind).items()) if kind else ():
        node = 0
        for lower, upper in zip(name.lower().encode(), name.upper().encode(), strict=True):
            if not tree[node][lower]:
                tree[node][lower] = tree[node][upper] = len(tree)
                tree.append(begun.copy())
            node = tree[node][lower]
        tree[node][ZONE_OF_NODE] = numbers[zone]
    return ZoneNames(np.array(tree, np.int16), tuple(numbers))


@cache
def spoken_zones(kind: str) -> dict[str, str]:
    """Names, and the zones that they mean, as Java knows them where a short name may stand, or none."""
    found = {name: name for name in zoneinfo.available_timezones() - NOT_IN_JAVA}
    if kind == "short":
        found = {name: zone for name, zone in found.items() if not name.startswith("Etc/GMT")}
        found |= {name: zone for zone, names in _SHORT_NAMES.items() for name in names if zone in found}
    return found


def utc_of_local(zone: str, local: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The instants of local times of a zone; both in microseconds since 1970."""
    return clock_of(zone).instant(local)
