"""The topics of a table: which partitions they have, as files that are listed, and where its messages begin."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemill.connectors.connector import GROWING, FileInfo
from tidemill.connectors.kafka.errors import created_anew, missing, not_installed
from tidemill.connectors.kafka.options import (
    EARLIEST,
    ENDING_OFFSETS,
    FAIL_ON_DATA_LOSS,
    LATEST,
    STARTING_OFFSETS,
    STARTING_TIMESTAMP,
    Offsets,
    Subscription,
    parse_subscription,
)
from tidemill.connectors.kafka.partitions import UNIT, Partition, begin_of, parse_path, path_of
from tidemill.options.option import Option

if TYPE_CHECKING:
    from tidemill.connectors.kafka.cluster import Cluster
    from tidemill.connectors.kafka.messages import PartitionFile


def cluster_of(options: Mapping[str, str]) -> Cluster:
    """The cluster that options name. TM5094 without the client, TM4003 for properties that are refused."""
    try:
        from tidemill.connectors.kafka import cluster
    except ImportError as error:
        raise not_installed(error) from error
    return cluster.cluster_of(options)


def partition_file(path: str, etag: str, options: Mapping[str, str], again: bool) -> PartitionFile:
    """The messages of a partition that was listed with an ETag. TM5094 as above.

    When they are read ``again``, for views created later, what is gone by then is left out.
    """
    try:
        from tidemill.connectors.kafka.messages import PartitionFile
    except ImportError as error:
        raise not_installed(error) from error
    given = {**options, FAIL_ON_DATA_LOSS.key: "false"} if again else options
    topic, number = parse_path(path)
    id_ = etag.partition(" ")[2]
    gone = again and bool(id_) and cluster_of(options).topic_ids([topic], options).get(topic, id_) != id_
    return PartitionFile((topic, number), begin_of(etag) // UNIT, given, gone)


@dataclass(frozen=True)
class Topics:
    """Where the messages of a table are.

    Parameters
    ----------
    given : tuple of (str, str)
        Options of the table, names in lower case.
    bounds : str
        What :func:`bounds_now` gave when the table was created.
    """

    given: tuple[tuple[str, str], ...]
    bounds: str

    def __repr__(self) -> str:
        return f"Topics({self.subscription.path})"

    @property
    def subscription(self) -> Subscription:
        """Which topics these are."""
        return parse_subscription(dict(self.given))

    def files(self) -> list[FileInfo]:
        """All partitions that there are.

        Raises
        ------
        TidemillError
            TM5090 for a topic or partition that is missing, TM5091 and TM5092 as the brokers answer, TM5093 for a topic
            that was created anew, unless messages may be lost.
        """
        options = dict(self.given)
        cluster = cluster_of(options)
        bounds = json.loads(self.bounds)
        found = _partitions(self.subscription, cluster.topics(options))
        if bounds["ends"] is not None:
            found = [p for p in found if str(p[1]) in bounds["ends"].get(p[0], {})]
        then = bounds.get("ids", {})
        ids = cluster.topic_ids(sorted({topic for topic, _ in found}), options, told=bool(then))
        anew = self._created_anew(ids, then)
        ends = cluster.next_offsets(found, options)
        begins = cluster.first_offsets(
            [p for p in found if p[0] in anew or _bound(bounds["begins"], p) is None], options
        )
        infos = []
        for place in found:
            begin, end, last = _bound(bounds["begins"], place), ends[place], _bound(bounds["ends"], place)
            begin = begins.get(place, begin)
            assert begin is not None
            end = end if last is None or place[0] in anew else min(end, last)
            path = path_of(place, anew.get(place[0], ""))
            infos.append(FileInfo(path, UNIT * max(end, begin), GROWING, ids.get(place[0], ""), UNIT * begin))
        return sorted(infos, key=lambda info: info.path)

    def begins(self) -> dict[str, int]:
        """The first byte of each partition that there is, by its path. Errors as :meth:`files`."""
        options = dict(self.given)
        cluster = cluster_of(options)
        found = _partitions(self.subscription, cluster.topics(options))
        return {path_of(p): UNIT * offset for p, offset in cluster.first_offsets(found, options).items()}

    def _created_anew(self, now: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
        """Topics that have another id than when the table was created. TM5093 unless messages may be lost."""
        anew = {topic: id_ for topic, id_ in now.items() if then.get(topic, id_) != id_}
        if anew and FAIL_ON_DATA_LOSS.of(dict(self.given)):
            raise created_anew(sorted(anew))
        return anew


def bounds_now(options: Mapping[str, str]) -> str:
    """Where the partitions that there are begin and end for a table that is created now, as a text.

    Raises
    ------
    TidemillError
        TM4003 for options that contradict each other or leave partitions out; others as :meth:`Topics.files`.
    """
    wanted, since, until = STARTING_OFFSETS.of(options), STARTING_TIMESTAMP.of(options), ENDING_OFFSETS.of(options)
    if since is not None and STARTING_OFFSETS.key in options:
        raise STARTING_TIMESTAMP.bad(str(since), "either startingOffsets or startingTimestamp")
    cluster = cluster_of(options)
    found = _partitions(parse_subscription(options), cluster.topics(options))
    nexts: dict[Partition, int] = {}
    if since is not None or until is not None or wanted != EARLIEST:
        nexts = cluster.next_offsets(found, options)
    begins: Offsets = {}
    if since is not None:
        for place, offset in cluster.offsets_at(found, since, options).items():
            begins.setdefault(place[0], {})[place[1]] = nexts[place] if offset < 0 else offset
    elif wanted != EARLIEST:
        begins = _resolved(STARTING_OFFSETS, wanted, nexts)
    ends = None if until is None else _resolved(ENDING_OFFSETS, until, nexts)
    ids = cluster.topic_ids(sorted({topic for topic, _ in found}), options)
    return json.dumps({"begins": begins, "ends": ends, "ids": ids}, sort_keys=True)


def _resolved(option: Option[Any], wanted: int | Offsets, nexts: Mapping[Partition, int]) -> Offsets:
    """Offsets of all partitions; those left out where they are to begin with what there is."""
    found: Offsets = {}
    for (topic, partition), end in nexts.items():
        offset = wanted if isinstance(wanted, int) else wanted.get(topic, {}).get(partition)
        if offset is None:
            raise option.bad(json.dumps(wanted), f"an offset for partition {partition} of {topic}, too")
        if offset > end and option is STARTING_OFFSETS:
            raise option.bad(json.dumps(wanted), f"partition {partition} of {topic} ends before {end}")
        if offset != EARLIEST:
            found.setdefault(topic, {})[partition] = end if offset == LATEST else offset
    others = set() if isinstance(wanted, int) else {(t, p) for t, ps in wanted.items() for p in ps} - nexts.keys()
    for topic, partition in sorted(others):
        raise missing(f"partition {partition} of the topic {topic}, of {option.name}")
    return found


def _bound(bounds: Mapping[str, Any] | None, place: Partition) -> int | None:
    found = None if bounds is None else bounds.get(place[0], {}).get(str(place[1]))
    return None if found is None else int(found)


def _partitions(subscription: Subscription, there: Mapping[str, Iterable[int]]) -> list[Partition]:
    """The partitions of a subscription, of all that there are. TM5090 for one that is missing."""
    if subscription.pattern is not None:
        topics = [t for t in there if subscription.pattern.fullmatch(t)]
        return [(t, p) for t in sorted(topics) for p in there[t]]
    if subscription.topics is not None:
        for topic in subscription.topics:
            if not there.get(topic):
                raise missing(f"the topic {topic}")
        return [(t, p) for t in subscription.topics for p in there[t]]
    found = [(t, p) for t, partitions in subscription.assigned or () for p in partitions]
    for topic, partition in found:
        if partition not in there.get(topic, ()):
            raise missing(f"partition {partition} of the topic {topic}")
    return found
