"""Writes ``docs/options.md``: ``python -m tidemill.cli.options_page > docs/options.md``."""

from __future__ import annotations

from tidemill.options.option import Option, OptionGroup
from tidemill.options.views import VIEW_PROPERTIES
from tidemill.runtime.tables.table_options import GROUPS
from tidemill.sinks.registry import SINK_GROUPS
from tidemill.spark_source.source_options import SOURCE_OPTIONS

_INTRODUCTION = """\
# Options

<!-- Written by `python -m tidemill.cli.options_page`; a test compares it with the declarations. -->

Options of tables, of `spark.read.format("tidemill")`, and of sinks, and properties of views. Names of options are
case-insensitive, values are strings. An unknown option is an error that names the nearest one (TM4005, TM8201, TM2014);
so is a value that an option does not accept (TM4003), and an option that does not apply to a table of this kind. The
last column says whether `ALTER TABLE name SET OPTIONS`, or `ALTER SINK name SET OPTIONS`, may change it. Secrets are
neither shown nor stored: the script or the environment must provide them again.

[Settings](settings.md) of mills and servers are given when they are started.
"""


def page() -> str:
    """The reference, in Markdown."""
    groups = (*GROUPS, VIEW_PROPERTIES, SOURCE_OPTIONS, *SINK_GROUPS)
    return "\n".join([_INTRODUCTION, *map(_section, groups)])


def _section(group: OptionGroup) -> str:
    head = "| option | values | default | what it is for | ALTER |\n|---|---|---|---|---|\n"
    return f"## {group.title}\n\n{group.about}\n\n{head}" + "".join(map(_row, group.options))


def _row(option: Option[object]) -> str:
    summary = f"{option.summary} (secret)" if option.secret else option.summary
    alterable = "yes" if option.alterable else ""
    cells = (f"`{option.name}`", option.kind.wanted, option.shown_default, summary, alterable)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    print(page(), end="")
