"""The rows of the catalogue: of views, their columns and types; every other relation is empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.runtime.read.snapshot import Snapshot
from tidemill.serve.postgres.catalogue.relations import relations
from tidemill.serve.postgres.catalogue.shown import ABOUT, PUBLIC, Relation, relations_of, size
from tidemill.serve.postgres.values import pg_types
from tidemill.serve.postgres.values.pg_types import PgType, of_arrow

OWNER = "tidemill"
OWNER_OID = 10
DEFINITIONS = "pg_catalog.pg_tidemill_definitions"
"""Not PostgreSQL's: what functions such as ``pg_get_viewdef`` look up."""
_NAMESPACES = {"pg_catalog": 11, PUBLIC: 2200, "information_schema": 13_000, ABOUT: 13_001}
_DATABASE_OID, _SPACE_OID, _HEAP_OID = 5, 1663, 2
_DEFINED: dict[str, pa.DataType] = {"oid": pa.uint32(), "definition": pa.string(), "bytes": pa.int64()}
_DEFINITIONS = pa.schema(_DEFINED)
Row = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What the rows are made of: a snapshot, and what this connection calls its database and user."""

    snapshot: Snapshot
    database: str
    user: str
    settings: Mapping[str, str]

    def relations(self) -> list[Relation]:
        """Everything that can be named, in the order of names."""
        return sorted(relations_of(self.snapshot).values(), key=lambda r: r.name)


def catalogue_table(name: str, seen: Seen) -> pa.Table:
    """The rows of a catalogue relation, by its full name; columns as in PostgreSQL 15."""
    schema = _DEFINITIONS if name == DEFINITIONS else relations()[name]
    make = _ROWS.get(name)
    found = list(make(seen)) if make is not None else []
    columns = [pa.array([_value(row, f) for row in found], f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _value(row: Row, field: pa.Field[Any]) -> Any:
    """What a row has, else what PostgreSQL has for an object without anything special."""
    if field.name in row:
        return row[field.name]
    if pa.types.is_boolean(field.type):
        return False
    return 0 if pa.types.is_integer(field.type) else None


def _classes(seen: Seen) -> Iterator[Row]:
    for relation in seen.relations():
        yield {
            "oid": relation.oid,
            "relname": relation.name,
            "relnamespace": _NAMESPACES[relation.schema],
            "relowner": OWNER_OID,
            "relam": _HEAP_OID if relation.kind == "r" else 0,
            "reltuples": float(size(seen.snapshot, relation.name)[0]),
            "relpersistence": "p",
            "relkind": relation.kind,
            "relnatts": len(relation.columns),
            "relispopulated": relation.name not in seen.snapshot.initialising,
            "relreplident": "n",
        }


def _attributes(seen: Seen) -> Iterator[Row]:
    for relation in seen.relations():
        for number, field in enumerate(relation.columns, 1):
            type_ = of_arrow(field.type)
            yield {
                "attrelid": relation.oid,
                "attname": field.name,
                "atttypid": type_.oid,
                "attstattarget": -1,
                "attlen": type_.size,
                "attnum": number,
                "attcacheoff": -1,
                "atttypmod": type_.modifier,
                "attndims": int(type_.element is not None),
                "attstorage": "x" if type_.size < 0 else "p",
                "attalign": "i",
                "attcompression": "",
                "attnotnull": not field.nullable,
                "attidentity": "",
                "attgenerated": "",
                "attislocal": True,
            }


def _types(_: Seen) -> Iterator[Row]:
    for type_ in (*pg_types.SCALARS, *pg_types.ARRAYS):
        yield {
            "oid": type_.oid,
            "typname": type_.short,
            "typnamespace": _NAMESPACES["pg_catalog"],
            "typowner": OWNER_OID,
            "typlen": type_.size,
            "typbyval": 0 < type_.size <= 8,
            "typtype": "p" if type_ is pg_types.UNKNOWN else "b",
            "typcategory": type_.category,
            "typispreferred": type_ in (pg_types.TEXT, pg_types.FLOAT8, pg_types.BOOL, pg_types.TIMESTAMPTZ),
            "typisdefined": True,
            "typdelim": ",",
            "typelem": 0 if type_.element is None else type_.element.oid,
            "typarray": type_.array,
            "typinput": f"{type_.short}in" if type_.element is None else "array_in",
            "typoutput": f"{type_.short}out" if type_.element is None else "array_out",
            "typreceive": f"{type_.short}recv" if type_.element is None else "array_recv",
            "typsend": f"{type_.short}send" if type_.element is None else "array_send",
            "typalign": "i",
            "typstorage": "x" if type_.size < 0 else "p",
            "typtypmod": -1,
        }


def _views(seen: Seen) -> Iterator[Row]:
    for r in seen.relations():
        if r.kind == "v":
            yield {"schemaname": r.schema, "viewname": r.name, "viewowner": OWNER, "definition": r.definition}


def _tables(seen: Seen) -> Iterator[Row]:
    for r in seen.relations():
        if r.kind == "r":
            yield {"schemaname": r.schema, "tablename": r.name, "tableowner": OWNER}


def _definitions(seen: Seen) -> Iterator[Row]:
    for r in seen.relations():
        yield {"oid": r.oid, "definition": r.definition or None, "bytes": size(seen.snapshot, r.name)[1]}


def _user(seen: Seen) -> Iterator[Row]:
    for oid, name in {OWNER_OID: OWNER, OWNER_OID + 1: seen.user}.items():
        yield {
            "oid": oid,
            "usesysid": oid,
            "rolname": name,
            "usename": name,
            "rolcanlogin": True,
            "rolinherit": True,
            "rolconnlimit": -1,
        }


def _schemas(seen: Seen) -> Iterator[Row]:
    for name in _NAMESPACES:
        yield {"catalog_name": seen.database, "schema_name": name, "schema_owner": OWNER}


def _information_tables(seen: Seen) -> Iterator[Row]:
    for r in seen.relations():
        yield {
            **_place(seen, r),
            "table_type": "VIEW" if r.kind == "v" else "BASE TABLE",
            **dict.fromkeys(("is_insertable_into", "is_typed"), "NO"),
        }


def _information_views(seen: Seen) -> Iterator[Row]:
    for r in seen.relations():
        if r.kind == "v":
            nothing = dict.fromkeys(("is_updatable", "is_insertable_into"), "NO")
            yield {**_place(seen, r), "view_definition": r.definition, "check_option": "NONE", **nothing}


def _place(seen: Seen, relation: Relation) -> Row:
    return {"table_catalog": seen.database, "table_schema": relation.schema, "table_name": relation.name}


def _information_columns(seen: Seen) -> Iterator[Row]:
    for relation in seen.relations():
        for number, field in enumerate(relation.columns, 1):
            type_ = of_arrow(field.type)
            yield {
                **_place(seen, relation),
                "column_name": field.name,
                "ordinal_position": number,
                "is_nullable": "YES" if field.nullable else "NO",
                "data_type": "ARRAY" if type_.element is not None else type_.name,
                **_limits(type_),
                "udt_catalog": seen.database,
                "udt_schema": "pg_catalog",
                "udt_name": type_.short,
                "dtd_identifier": str(number),
                "is_updatable": "NO",
                **dict.fromkeys(("is_self_referencing", "is_identity", "identity_cycle"), "NO"),
                "is_generated": "NEVER",
            }


_BITS = {"smallint": 16, "integer": 32, "bigint": 64, "real": 24, "double precision": 53}


def _limits(type_: PgType) -> Row:
    """Precisions of numbers and times; NULL for what a type has not."""
    found: Row = dict.fromkeys(
        (
            *("character_maximum_length", "character_octet_length", "numeric_precision", "numeric_precision_radix"),
            *("numeric_scale", "datetime_precision", "interval_precision", "maximum_cardinality"),
        )
    )
    if type_.short == "numeric" and type_.modifier >= 0:
        packed = type_.modifier - 4
        found |= {"numeric_precision": packed >> 16, "numeric_scale": packed & 0xFFFF, "numeric_precision_radix": 10}
    elif type_.name in _BITS:
        found |= {"numeric_precision": _BITS[type_.name], "numeric_precision_radix": 2}
        found["numeric_scale"] = None if type_.short.startswith("float") else 0
    elif type_.category == "D":
        found["datetime_precision"] = 0 if type_ is pg_types.DATE else 6
    return found


_ROWS: dict[str, Callable[[Seen], Iterator[Row]]] = {
    DEFINITIONS: _definitions,
    "pg_catalog.pg_class": _classes,
    "pg_catalog.pg_attribute": _attributes,
    "pg_catalog.pg_type": _types,
    "pg_catalog.pg_views": _views,
    "pg_catalog.pg_tables": _tables,
    "pg_catalog.pg_namespace": lambda _: (
        {"oid": o, "nspname": n, "nspowner": OWNER_OID} for n, o in _NAMESPACES.items()
    ),
    "pg_catalog.pg_roles": _user,
    "pg_catalog.pg_user": _user,
    "pg_catalog.pg_am": lambda _: iter(({"oid": _HEAP_OID, "amname": "heap", "amtype": "t"},)),
    "pg_catalog.pg_tablespace": lambda _: iter(({"oid": _SPACE_OID, "spcname": "pg_default", "spcowner": OWNER_OID},)),
    "pg_catalog.pg_database": lambda seen: iter(
        (
            {
                "oid": _DATABASE_OID,
                "datname": seen.database,
                "datdba": OWNER_OID,
                "encoding": 6,
                "datlocprovider": "c",
                "datallowconn": True,
                "datconnlimit": -1,
                "dattablespace": _SPACE_OID,
                "datcollate": "C.UTF-8",
                "datctype": "C.UTF-8",
            },
        )
    ),
    "pg_catalog.pg_settings": lambda seen: (
        {"name": n, "setting": v, "vartype": "string", "context": "user", "source": "session"}
        for n, v in seen.settings.items()
    ),
    "information_schema.schemata": _schemas,
    "information_schema.tables": _information_tables,
    "information_schema.views": _information_views,
    "information_schema.columns": _information_columns,
    "information_schema.information_schema_catalog_name": lambda seen: iter(({"catalog_name": seen.database},)),
    "information_schema.enabled_roles": lambda _: iter(({"role_name": OWNER},)),
}
