"""Names of the nodes that have state. They are given once, when a view is created, and the catalog keeps them.

A view that is planned now is compared with the others by fingerprints: equal work on the same relations, whatever these
are called, has equal ones. They decide which names a new view has in common with those that there are
(``runtime/catalog/view_plans.py``); no state is ever looked for by the fingerprint of a view that has names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from tidemill.plan.algebra.codec import fingerprint
from tidemill.plan.algebra.node_memo import NodeMemo
from tidemill.plan.algebra.nodes import Aggregate, Node, Scan, Window, children, relations
from tidemill.plan.algebra.traverse import map_children
from tidemill.plan.algebra.window_names import window_names


class Identities:
    """What nodes are named.

    Fingerprints are remembered: to take one takes longer than all else in assembling a plan.
    """

    def __init__(self) -> None:
        self._fingerprints: NodeMemo[tuple[dict[str, str], str]] = NodeMemo()
        self._of_views: NodeMemo[tuple[dict[str, str], list[str]]] = NodeMemo()
        self._given: NodeMemo[tuple[str, ...]] = NodeMemo()

    def give(self, root: Node, names: Sequence[str]) -> None:
        """Take over the names of all nodes of a view, in the order of :meth:`fingerprints`; none for a new query."""
        if not names or self._given.get(root) is not None:
            return
        rest = iter(names)
        for node in _nodes(root):
            self._given.put(node, tuple(next(rest) for _ in range(3 if isinstance(node, Window) else 1)))

    def of(self, node: Node, uid_of: Callable[[str], str]) -> str:
        """The name of a node.

        Parameters
        ----------
        uid_of : callable
            The uid of a table or view, by its name.
        """
        given = self._given.get(node)
        return self._fingerprint(node, uid_of) if given is None else given[0]

    def of_window(self, node: Window, uid_of: Callable[[str], str]) -> tuple[str, str]:
        """The names of the rows that window functions look at, and of the functions."""
        given = self._given.get(node)
        return window_names(node, self.of(node.child, uid_of)) if given is None else (given[1], given[2])

    def fingerprints(self, root: Node, uid_of: Callable[[str], str]) -> Sequence[str]:
        """One for each node, from the root on, and two more for a window: as many as a view has names."""
        known = self._of_views.get(root)
        if known is not None and _named(known[0], uid_of):
            return known[1]
        found: list[str] = []
        for node in _nodes(root):
            found.append(self._fingerprint(node, uid_of))
            if isinstance(node, Window):
                found += window_names(node, self._fingerprint(node.child, uid_of))
        return self._of_views.put(root, ({name: uid_of(name) for name in relations(root)}, found))[1]

    def _fingerprint(self, node: Node, uid_of: Callable[[str], str]) -> str:
        known = self._fingerprints.get(node)
        if known is None or not _named(known[0], uid_of):
            uids = {relation: uid_of(relation) for relation in relations(node)}
            known = self._fingerprints.put(node, (uids, fingerprint(_over(node, uids))))
        return known[1]


def _named(uids: dict[str, str], uid_of: Callable[[str], str]) -> bool:
    """Whether relations have these uids still."""
    return all(uid_of(relation) == uid for relation, uid in uids.items())


@lru_cache(maxsize=1 << 14)
def arrangement(identity: str, order: tuple[int, ...], required: tuple[int, ...], width: int) -> str:
    """Names the rows of a node by key: by the columns in this order, of which the first ``width`` are the key.

    It must stay as it is: state tables are called by these names.
    """
    text = json.dumps([identity, order, required, width], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _nodes(node: Node) -> Iterator[Node]:
    """A node and all below it. The order is part of the format on disk (``docs/on-disk-format.md``)."""
    yield node
    factorised = isinstance(node, Aggregate) and (node.pairs is not None or node.parts)
    below = (node.child, *children(node)) if isinstance(node, Aggregate) and factorised else children(node)
    for child in below:
        yield from _nodes(child)


def _over(node: Node, uids: dict[str, str]) -> Node:
    """A plan over uids in place of names."""
    if isinstance(node, Scan):
        return replace(node, relation=uids[node.relation])
    return map_children(node, lambda child: _over(child, uids))
