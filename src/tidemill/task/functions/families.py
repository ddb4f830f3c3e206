"""Imports every family of functions, so that the registry is complete."""

# ruff: noqa: F401

from tidemill.task.functions import cast, comparison, python_functions, subqueries
from tidemill.task.functions.documents import csv_read, csv_write, json_paths, json_read, json_write, variant
from tidemill.task.functions.encodings import encodings, hashing
from tidemill.task.functions.nested import (
    array_bodies,
    array_elements,
    arrays,
    comparator_sort,
    map_bodies,
    maps,
    structs,
)
from tidemill.task.functions.numbers import (
    arithmetic,
    bitwise,
    decimals,
    few_numbers,
    format_columns,
    histograms,
    mathematics,
    number_formats,
    printing,
    rounding,
)
from tidemill.task.functions.text import (
    java_patterns,
    pattern_columns,
    patterns,
    strings,
    text_columns,
    text_edits,
    text_numbers,
    text_positions,
    text_rules,
    urls,
)
from tidemill.task.functions.times import date_patterns, dates, intervals, time_sequences, time_zones, timestamps
