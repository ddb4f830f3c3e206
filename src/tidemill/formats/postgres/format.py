"""Lines of tables of PostgreSQL: CSV, as ``connectors/postgres/pgoutput.py`` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.formats.base import RowReader
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.rows.malformed import MODE
from tidemill.schema import Schema

POSTGRES = "postgres"

_AS_WRITTEN = {"nullvalue": "\0", "comment": "#"}
"""An empty text is not NULL where it is quoted: no text of PostgreSQL has a zero byte. Lines with positions are none of
rows, and other values are all quoted."""


class PostgresFormat(CsvFormat):
    """Rows of tables of PostgreSQL, as lines of CSV.

    Values are parsed as those of :class:`tidemill.formats.csv.format.CsvFormat`; one that a column cannot hold, such as
    ``infinity`` or ``NaN`` in a DECIMAL, is malformed.
    """

    name = POSTGRES
    option_names = frozenset({MODE.key})

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        super().validate(schema, {**options, **_AS_WRITTEN})

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> RowReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return super().reader(schema, {**options, **_AS_WRITTEN}, needed)
