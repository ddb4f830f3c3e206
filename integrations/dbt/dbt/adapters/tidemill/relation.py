"""Names of views and tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbt.adapters.base.relation import Policy
from dbt.adapters.postgres import PostgresRelation


@dataclass(frozen=True, eq=False, repr=False)
class TidemillRelation(PostgresRelation):
    """A view or table, written as its name alone: models are Spark SQL, tests are PostgreSQL's, and quotes differ."""

    quote_policy: Policy = field(default_factory=lambda: Policy(database=False, schema=False, identifier=False))
    include_policy: Policy = field(default_factory=lambda: Policy(database=False, schema=False, identifier=True))

    def quoted(self, identifier: str) -> str:
        """The name as it is: relations that dbt finds in the catalogue are quoted by default."""
        return identifier
