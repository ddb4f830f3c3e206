"""The aggregates in ``docs/functions.md``; print them with ``python -m tidemill.plan.documentation.aggregates``."""

from __future__ import annotations

from tidemill.plan.catalyst.aggregates.aggregates import declarations


def aggregates_table() -> str:
    """One Markdown row for each declared aggregate function: its names in SQL, and what a view means by it."""
    lines = ["| aggregate | what a view means by it, where Spark leaves it open |", "|---|---|"]
    rows = sorted((declared.sql, declared.meaning) for declared in declarations().values())
    for names, meaning in rows:
        lines.append(f"| {', '.join(f'`{name}`' for name in names)} | {meaning} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(aggregates_table())
