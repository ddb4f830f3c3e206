"""The table of ``docs/functions.md``; print it with ``python -m tidemill.task.functions.documentation``."""

from __future__ import annotations

from tidemill.task.functions.columns.registry import every_function

_CONDITIONAL = {
    "and": "AND",
    "or": "OR",
    "if": "IF, NVL2, NULLIF",
    "case": "CASE, DECODE",
    "coalesce": "COALESCE, NVL, IFNULL",
    "in": "IN",
}


def functions_table() -> str:
    """One Markdown row for each registered function: family, name, SQL spellings."""
    lines = ["| family | function | SQL |", "|---|---|---|"]
    lines += [f"| conditional | `{name}` | `{sql}` |" for name, sql in _CONDITIONAL.items()]
    for family, _, spec in sorted(
        (f.kernel.__module__.rpartition(".")[2], f.name, f) for f in every_function().values()
    ):
        spellings = ", ".join(f"`{sql}`" for sql in spec.sql).replace("|", "\\|")
        lines.append(f"| {family} | `{spec.name}` | {spellings} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(functions_table())
