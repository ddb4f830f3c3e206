"""Names of the nodes that have state: equal for equal work on the same relations, whatever these are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from tidemill.plan.algebra.codec import fingerprint
from tidemill.plan.algebra.node_memo import NodeMemo
from tidemill.plan.algebra.nodes import Node, Scan, relations
from tidemill.plan.algebra.traverse import map_children


class Identities:
    """What nodes are named. Names are kept: to take a fingerprint takes longer than all else in assembling a plan."""

    def __init__(self) -> None:
        self._named: NodeMemo[tuple[dict[str, str], str]] = NodeMemo()

    def of(self, node: Node, uid_of: Callable[[str], str]) -> str:
        """The name of a node.

        Parameters
        ----------
        uid_of : callable
            The uid of a table or view, by its name.
        """
        named = self._named.get(node)
        if named is None or any(uid_of(relation) != uid for relation, uid in named[0].items()):
            uids = {relation: uid_of(relation) for relation in relations(node)}
            named = self._named.put(node, (uids, fingerprint(_over(node, uids))))
        return named[1]


@lru_cache(maxsize=1 << 14)
def arrangement(identity: str, order: tuple[int, ...], required: tuple[int, ...], width: int) -> str:
    """Names the rows of a node by key: by the columns in this order, of which the first ``width`` are the key."""
    return fingerprint((identity, order, required, width))


def _over(node: Node, uids: dict[str, str]) -> Node:
    """A plan over uids in place of names."""
    if isinstance(node, Scan):
        return replace(node, relation=uids[node.relation])
    return map_children(node, lambda child: _over(child, uids))
