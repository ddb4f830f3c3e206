"""Functions about the catalogue, as macros of DuckDB; all have names of their own, and none stands for one of
DuckDB's but ``octet_length``.

Those that depend on the connection are in :mod:`tidemill.serve.postgres.query.session_functions`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.serve.postgres.catalogue.shown import HIDDEN_OID
from tidemill.serve.postgres.catalogue.tables import DEFINITIONS, OWNER
from tidemill.serve.postgres.values.pg_types import BY_OID, NUMERIC

PREFIX = "pg_catalog__"

_NOTHING = (
    *("pg_get_expr", "obj_description", "col_description", "shobj_description", "pg_get_indexdef", "pg_get_ruledef"),
    *("pg_get_constraintdef", "pg_get_triggerdef", "pg_get_functiondef", "pg_get_function_result", "pg_get_partkeydef"),
    *("pg_get_function_arguments", "pg_get_function_identity_arguments", "pg_get_serial_sequence"),
    *("pg_get_partition_constraintdef", "pg_get_statisticsobjdef_columns", "pg_tablespace_location", "array_upper"),
    *("pg_stat_get_last_vacuum_time", "inet_server_addr", "inet_client_addr", "pg_get_function_sqlbody", "array_lower"),
)
"""NULL, with any number of arguments."""
_YES = (
    *("has_table_privilege", "has_schema_privilege", "has_database_privilege", "has_column_privilege"),
    *("has_any_column_privilege", "has_function_privilege", "has_type_privilege", "has_tablespace_privilege"),
    *(
        "has_sequence_privilege",
        "has_language_privilege",
        "pg_has_role",
        "pg_type_is_visible",
        "pg_function_is_visible",
    ),
    *("pg_operator_is_visible", "pg_collation_is_visible", "pg_opclass_is_visible", "pg_opfamily_is_visible"),
    *("pg_ts_config_is_visible", "pg_conversion_is_visible", "pg_statistics_obj_is_visible"),
)
_NO = ("pg_is_other_temp_schema", "pg_is_in_recovery", "pg_relation_is_publishable", "row_security_active")
_ZERO = ("pg_my_temp_schema", "pg_stat_get_numscans", "pg_relation_filenode", "pg_indexes_size", "pg_database_size")
_MOST_ARGUMENTS = 4
_ONE = {
    "pg_get_userbyid": ("x", f"CASE WHEN x IS NOT NULL THEN '{OWNER}' END"),
    "pg_encoding_to_char": ("x", "'UTF8'"),
    "pg_table_is_visible": ("x", f"x < {HIDDEN_OID}"),
    "quote_ident": ("x", "CASE WHEN regexp_full_match(x, '[a-z_][a-z0-9_$]*') THEN x "
                    "ELSE '\"' || replace(x, '\"', '\"\"') || '\"' END"),
    "quote_literal": ("x", "'''' || replace(x, '''', '''''') || ''''"),
    "array_remove": ("x, y", "list_filter(x, lambda e: e IS DISTINCT FROM y)"),
    "_pg_expandarray": ("x", "{'x': x[1], 'n': 1}"),
    "pg_get_viewdef": ("x", f'(SELECT d.definition FROM "{DEFINITIONS}" d WHERE d.oid = x::UINTEGER)'),
    "pg_total_relation_size": ("x", f'(SELECT d.bytes FROM "{DEFINITIONS}" d WHERE d.oid = x::UINTEGER)'),
}  # fmt: skip
_ALIKE = {
    "pg_relation_size": "pg_total_relation_size",
    "pg_table_size": "pg_total_relation_size",
}
LOOKING_UP = ("pg_get_viewdef", "pg_total_relation_size", *_ALIKE)
"""Those that read :data:`DEFINITIONS`."""
NAMES = frozenset((*_NOTHING, *_YES, *_NO, *_ZERO, *_ONE, *_ALIKE, "format_type"))


def macros() -> Iterator[str]:
    """The statements that create them, but those of :data:`LOOKING_UP`, which a session needs when it looks up."""
    for names, result in ((_NOTHING, "NULL"), (_YES, "true"), (_NO, "false"), (_ZERO, "0::BIGINT")):
        for name in names:
            forms = [", ".join("abcd"[:n]) for n in range(_MOST_ARGUMENTS + 1)]
            yield _macro(name, [(form, result) for form in forms])
    yield _macro("format_type", [("o, m", _format_type())])
    for name, (argument, body) in _ONE.items():
        if name not in LOOKING_UP:
            yield _macro(name, [(argument, body)])


def of_values() -> Iterator[str]:
    """The statement that lets ``octet_length`` take texts as well as binary values, in place of DuckDB's own."""
    binary, text = "system.main.octet_length(CAST(x AS BLOB))", "strlen(CAST(x AS VARCHAR))"
    yield f"CREATE MACRO octet_length(x) AS CASE typeof(x) WHEN 'BLOB' THEN {binary} ELSE {text} END"


def looking_up() -> Iterator[str]:
    """The statements that create those of :data:`LOOKING_UP`, as temporary macros of a session."""
    for name in LOOKING_UP:
        body = _ONE[_ALIKE.get(name, name)][1]
        yield _macro(name, [("x", body), ("x, y", body)], "TEMP ")


def _macro(name: str, forms: list[tuple[str, str]], temporary: str = "") -> str:
    bodies = ", ".join(f"({arguments}) AS {body}" for arguments, body in forms)
    return f"CREATE {temporary}MACRO {PREFIX}{name}{bodies}"


def _format_type() -> str:
    """The name of a type; ``???`` for none, as in PostgreSQL."""
    names = " ".join(f"WHEN {t.oid} THEN '{t.name}'" for t in BY_OID.values())
    packed = "(m - 4)"
    exact = f"'numeric(' || ({packed} >> 16) || ',' || ({packed} & 65535) || ')'"
    return (
        f"CASE WHEN o IS NULL THEN NULL WHEN o::UINTEGER = {NUMERIC.oid} AND m::INTEGER >= 4 THEN {exact} "
        f"ELSE CASE o::UINTEGER {names} ELSE '???' END END"
    )
