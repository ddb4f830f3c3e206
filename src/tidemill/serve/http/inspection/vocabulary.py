"""``GET /v1/vocabulary``: the names that a statement may use, for completion."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter

from tidemill.plan.catalyst.aggregates.aggregates import declarations
from tidemill.schema import Schema, type_to_ddl
from tidemill.serve.http.callers import READ, WITH_TOKEN, Served
from tidemill.serve.http.inspection.models import Relation, Vocabulary
from tidemill.serve.http.models import Column
from tidemill.task.functions.columns.registry import every_function

router = APIRouter(tags=["inspection"], dependencies=[*WITH_TOKEN, READ])


@router.get("/v1/vocabulary", summary="Names that a statement may use")
def vocabulary(service: Served) -> Vocabulary:
    """Tables and views with their columns, and the functions that views support."""
    catalog = service.mill.snapshot().catalog
    tables = [Relation(name=n, kind="table", columns=_columns(catalog.described(n)[0])) for n in catalog.tables]
    views = [Relation(name=n, kind="view", columns=_columns(catalog.described(n)[0])) for n in catalog.views]
    return Vocabulary(relations=[*views, *tables], functions=list(_functions()))


def _columns(schema: Schema) -> list[Column]:
    return [Column(name=f.name, type=type_to_ddl(f.type), nullable=f.nullable) for f in schema]


@cache
def _functions() -> tuple[str, ...]:
    """Names of functions and aggregates, without operators."""
    names = {sql for f in every_function().values() for sql in f.sql}
    names |= {sql for d in declarations().values() for sql in d.sql}
    return tuple(sorted(n.lower() for n in names if n.isidentifier()))
