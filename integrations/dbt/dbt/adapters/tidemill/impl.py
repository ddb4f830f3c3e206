"""What dbt asks of Tidemill that it does not ask of PostgreSQL in the same way."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dbt.adapters.base import AdapterConfig, available
from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.postgres import PostgresAdapter
from dbt.adapters.tidemill.connections import TidemillConnectionManager
from dbt.adapters.tidemill.relation import TidemillRelation
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

_LOGGER = AdapterLogger("Tidemill")
_COLUMNS_CHANGE = "TM2018"
_POLL_SECONDS = 0.1


@dataclass
class TidemillConfig(AdapterConfig):
    """What the config of a model may have beside dbt's own."""

    tblproperties: dict[str, Any] | None = None


class TidemillAdapter(PostgresAdapter):
    """Models are materialized views."""

    Relation = TidemillRelation
    ConnectionManager = TidemillConnectionManager
    AdapterSpecificConfigs = TidemillConfig
    CONSTRAINT_SUPPORT = dict.fromkeys(ConstraintType, ConstraintSupport.NOT_SUPPORTED)

    def _link_cached_relations(self, manifest: Any) -> None:
        """Nothing: no DROP cascades."""

    @available
    def view_statement(self, relation: TidemillRelation, sql: str, properties: Mapping[str, Any] | None) -> str:
        """The statement that makes the view of a model; it leaves a view as it is that has this query."""
        given = ", ".join(f"{_text(k)} = {_text(v)}" for k, v in (properties or {}).items())
        head = f"create or replace materialized view {relation}"
        return f"{head}{f' tblproperties ({given})' if given else ''} as\n{sql.strip()}"

    @available
    def build_view(
        self, relation: TidemillRelation, statement: str, readers: Collection[TidemillRelation], full_refresh: bool
    ) -> str:
        """Make the view of a model, and wait until it can be read.

        Parameters
        ----------
        readers : list of TidemillRelation
            Views that read it, those first that no other reads. They are dropped when its columns change or the whole
            view is made again, for dbt makes them again after it.

        Returns
        -------
        str
            What the server answered.
        """
        if full_refresh:
            self._drop(*readers, relation)
        try:
            response, _ = self.execute(statement)
        except DbtDatabaseError as error:
            if _COLUMNS_CHANGE not in str(error) or not readers:
                raise
            self._drop(*readers)
            response, _ = self.execute(statement)
        self._wait(relation)
        return str(response)

    @available
    def readers(self, graph: Mapping[str, Any], model: str) -> list[str]:
        """The ids of all nodes that read a node, also through others, those first that no other reads."""
        children: dict[str, list[str]] = {}
        for name, node in graph["nodes"].items():
            for parent in node["depends_on"].get("nodes", ()):
                children.setdefault(parent, []).append(name)
        found: dict[str, None] = {}

        def visit(parent: str) -> None:
            for child in children.get(parent, ()):
                if child not in found:
                    visit(child)
                    found[child] = None

        visit(model)
        return list(found)

    def _drop(self, *relations: TidemillRelation) -> None:
        for relation in relations:
            _LOGGER.info(f"dropping {relation}, which is made again")
            self.drop_relation(relation)

    def _wait(self, relation: TidemillRelation) -> None:
        """Wait until a view has its whole history, and has taken the place of the one before."""
        name, seconds = str(relation.identifier).lower(), self.config.credentials.wait_seconds
        end = time.monotonic() + seconds
        while True:
            _, rows = self.execute("show views", fetch=True)
            status, detail = next(((r["status"], r["detail"]) for r in rows if r["name"] == name), ("dropped", ""))
            waiting = status == "initialising" or "is being replaced" in detail
            if status == "stopped" or not waiting:
                if status == "paused":
                    _LOGGER.warning(f"{name} is paused: {detail}")
                elif status != "fresh" or detail:  # a detail of a fresh view says why it could not be replaced
                    raise DbtRuntimeError(f"the view {name} is {status}: {detail}")
                return
            if time.monotonic() >= end:
                if seconds:
                    _LOGGER.warning(f"{name} still has no complete history after {seconds:g} s: {detail}")
                return
            time.sleep(_POLL_SECONDS)


def _text(value: Any) -> str:
    """A literal of Spark SQL."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
