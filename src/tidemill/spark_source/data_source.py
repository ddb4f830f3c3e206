"""``spark.read`` and ``spark.readStream.format("tidemill")``: the formats as a data source of Spark, without a mill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from tidemill.connectors.registry import is_offered, options_of
from tidemill.ddl import parse_columns
from tidemill.errors import TidemillError, nearest
from tidemill.formats.inference.infer import INFERABLE, infer_columns
from tidemill.formats.inference.options import INFERENCE_OPTIONS, parse_inference
from tidemill.formats.inference.sampling import chosen
from tidemill.formats.reading.codecs import CODEC_OPTIONS
from tidemill.formats.reading.read_modes import READ_OPTIONS
from tidemill.formats.registry import built_in, lookup
from tidemill.formats.rescue.options import rescuing
from tidemill.objectstore.connection import CONNECTION_OPTIONS, is_object_url
from tidemill.options.option import check_options, lowered
from tidemill.schema import Schema
from tidemill.sources.file_metadata import with_metadata
from tidemill.sources.files import local_pattern, missing
from tidemill.sources.locations.location import location_of
from tidemill.spark_source.brief_errors import brief_errors
from tidemill.spark_source.data_reader import NAME, TidemillReader
from tidemill.spark_source.data_stream import TidemillStreamReader
from tidemill.spark_source.left_out import parse_ignored
from tidemill.spark_source.source_options import COLUMNS, ERRORS_PATH, FORMAT, OWN_OPTIONS, SOURCE_OPTIONS, paths_of

_OF_MILLS = ("debezium", "delta", "generator", "iceberg", "kafka", "mqtt", "orderbook", "postgres")


def register(spark: SparkSession) -> None:
    """Register ``spark.read.format("tidemill")`` with a session; also ``tidemill.register``.

    Options are those of the format, of codecs, of modes of reading, of schema inference, of object stores, and those
    of :mod:`tidemill.spark_source.source_options`. Without a schema or the option ``columns`` columns are inferred,
    where the format allows. ``spark.readStream.format("tidemill")`` reads each file once, see
    :mod:`tidemill.spark_source.data_stream`; reads that are no streams ignore ``stateLocation`` and limits.

    All columns of the schema are parsed: Spark tells Python sources which filters a query has (``pushFilters``), but
    not which columns it needs. So name only these in the schema. Where columns are matched by position (CSV without a
    header, Native, frames) list those of the files in the option ``columns``.
    """
    spark.dataSource.register(TidemillSource)


@brief_errors
class TidemillSource(DataSource):  # type: ignore[misc]  # PySpark has no types here
    """Files of any format that has rows. The names of options are checked when the source is loaded."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.given = lowered(options)
        name = FORMAT.of(self.given)
        if not name or name.lower() in _OF_MILLS:
            rows = [n for n in built_in() if n not in _OF_MILLS]
            raise TidemillError(
                "TM4070",
                "the option format names no format of rows",
                got=repr(name),
                hint=f"{nearest(name, rows)}; topics, tables, changelogs, order books, generators are read by a mill",
            )
        paths = paths_of(self.given)
        known = (
            lookup(name).option_names
            | CODEC_OPTIONS.keys
            | READ_OPTIONS.keys
            | INFERENCE_OPTIONS.keys
            | OWN_OPTIONS
            | (CONNECTION_OPTIONS.keys if any(map(is_object_url, paths)) or not any(map(is_offered, paths)) else set())
            | options_of(paths).keys()
        )
        check_options(name, self.given, known)
        for option in SOURCE_OPTIONS.options:
            option.of(self.given)
        if not paths:
            raise TidemillError(
                "TM5005", "a table needs a path", got="no path", hint='.load("directory, file or glob")'
            )
        self._ignored = parse_ignored(self.given)
        self._check_errors_path()

    def _check_errors_path(self) -> None:
        """TM4003 where errors would be written among the files that are read, or to a file."""
        given = ERRORS_PATH.of(self.given)
        if given is None:
            return
        directory = Path(local_pattern(given))
        if directory.exists() and not directory.is_dir():
            raise ERRORS_PATH.bad(given, "a directory: this is a file")
        for path in (path for path in paths_of(self.given) if not (is_object_url(path) or is_offered(path))):
            read = Path(local_pattern(path))
            if read == directory or (directory / "x.parquet").match(str(read)):
                raise ERRORS_PATH.bad(given, "a directory that is not read itself")

    @classmethod
    def name(cls) -> str:
        """As in ``spark.read.format``."""
        return NAME

    def schema(self) -> str:
        """The columns that a sample of the files has, where none are given.

        Raises
        ------
        TidemillError
            TM4073 for a format whose columns cannot be inferred, TM4071 when there is no row, and what
            :func:`tidemill.formats.inference.infer.infer_columns` raises.
        """
        name = self.given[FORMAT.key].lower()
        columns = COLUMNS.of(self.given)
        if columns is not None:
            return self._columns(parse_columns(columns))
        if name not in INFERABLE:
            raise TidemillError(
                "TM4073",
                "the columns of this format cannot be inferred",
                got=name,
                hint='.schema("a BIGINT, b STRING") before .load',
            )
        found = [
            file.path for path in paths_of(self.given) for file in location_of(path, self.given).listing() if file.size
        ]
        return self._columns(self._inferred(name, found))

    def _inferred(self, name: str, found: list[str]) -> Schema:
        """The columns of a sample, without files that may be left out and cannot be read."""
        try:
            return infer_columns(name, found, self.given)
        except (TidemillError, FileNotFoundError) as error:
            if not self._left_out(error):
                raise
        sample = chosen(found, parse_inference(self.given).files)
        return infer_columns(name, [path for path in sample if self._is_readable(name, str(path))], self.given)

    def _is_readable(self, name: str, path: str) -> bool:
        try:
            infer_columns(name, [path], self.given)
        except (TidemillError, FileNotFoundError) as error:
            return not self._left_out(error)
        return True

    def _left_out(self, error: Exception) -> bool:
        return self._ignored.covers(error if isinstance(error, TidemillError) else missing(str(error)))

    def _columns(self, found: Schema) -> str:
        """All columns, given those of the files."""
        rescued, _ = rescuing(found, self.given, inferred=False)
        return with_metadata(rescued, self.given[FORMAT.key].lower(), self.given).to_ddl()

    def reader(self, schema: StructType) -> TidemillReader:
        """Errors as :meth:`tidemill.formats.base.Format.validate`."""
        return TidemillReader(self.given, schema)

    def streamReader(self, schema: StructType) -> TidemillStreamReader:  # noqa: N802
        """Errors as :meth:`reader`, and TM1009 for a ``stateLocation`` of an unknown scheme."""
        return TidemillStreamReader(self.given, schema)
