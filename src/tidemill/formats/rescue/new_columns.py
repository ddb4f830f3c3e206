"""The error for new columns in files of a table that refuses them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from tidemill.errors import FormatError


class NewColumnsError(FormatError):
    """TM4074: a file has columns that its table has not.

    Attributes
    ----------
    columns : dict of str to DataType or None
        The new columns by their names, in order; None where the type is to be inferred from the file.
    table, path : str
        Where they were found; empty until :meth:`at`.
    """

    def __init__(self, columns: Mapping[str, pa.DataType | None], table: str = "", path: str = "") -> None:
        self.columns = dict(columns)
        self.table, self.path = table, path
        place = f"{path} of table {table}: " if path else ""
        super().__init__(
            "TM4074",
            "a file has columns that the table has not",
            got=place + ", ".join(columns),
            hint="create the table again with them, take the file out of its path, or use another schemaEvolutionMode",
        )

    def at(self, table: str, path: str) -> NewColumnsError:
        """The same error, naming the place."""
        return NewColumnsError(self.columns, table, path)

    def __reduce__(self) -> tuple[type, tuple[Mapping[str, pa.DataType | None], str, str]]:  # type: ignore[override]
        return NewColumnsError, (self.columns, self.table, self.path)


def new_names(names: Collection[str], known: Collection[str]) -> list[str]:
    """Names that are no columns, each once, in order; one that differs from a column only in case is not new."""
    lowered = {name.lower() for name in known}
    found: dict[str, str] = {}
    for name in names:
        if name.lower() not in lowered:
            found.setdefault(name.lower(), name)
    return list(found.values())
