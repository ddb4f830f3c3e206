"""Writes ``docs/settings.md``: ``python -m tidemill.cli.settings_page > docs/settings.md``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import get_type_hints

from tidemill.cli.commands import serve
from tidemill.config import AUTO, Settings, bounds, choices
from tidemill.serve.access.settings import ServerSettings

_INTRODUCTION = """\
# Settings

<!-- Written by `python -m tidemill.cli.settings_page`; a test compares it with the declarations. -->

Settings say how a mill or server runs. They are given each time that it is started, and are not stored in the root,
except for `time_zone`. [Options of tables](options.md) and properties of views are given in SQL, and are stored.

## Mills

```
tidemill run pipeline.sql --root DIR --set memory_bytes=2g --set checkpoint_seconds=0.5
tidemill serve pipeline.sql --root DIR --set allowed_paths=/data,s3://bucket
```

```python
mill = tm.Mill("/var/lib/mill", settings=tm.Settings(memory_bytes=2 << 30, checkpoint_seconds=0.5))
```

`tidemill run` and `tidemill serve` take each setting with `--set NAME=VALUE`; the last one of a name counts.
`--master`, `--mode` and `--epoch-bytes` are short forms, and so are the environment variables `TIDEMILL_MASTER` and
`TIDEMILL_MODE`; where `epoch_bytes` is given and `split_bytes` is not, splits have at most a quarter of it. Bytes may
have the unit k, m or g (powers of 1,024). An unknown name is TM7005, a bad value TM7006. Of `spark_conf` each entry is
given alone: `--set spark_conf.spark.driver.memory=4g`.

| setting | values | default | meaning |
|---|---|---|---|
"""

_SERVERS = """
## Servers

`tidemill serve` takes each of these with `--set NAME=VALUE`, too, and has options for some. A program that starts a
server itself gives them as `tidemill.serve.access.settings.ServerSettings(name=value)`.

| setting | option | values | default | meaning |
|---|---|---|---|---|
"""

_OPTIONS = {"hosts": "allow_host"}
"""Settings whose option has another name, as a parameter of the command."""


_DEFAULTS = {"master": "", "mode": AUTO}
"""Of settings whose default may come from an environment variable."""


def page() -> str:
    """The reference, in Markdown."""
    return _INTRODUCTION + "".join(_of_mills()) + _SERVERS + "".join(_of_servers())


def _of_mills() -> Iterator[str]:
    usual = Settings()
    for name, text in _described(Settings):
        given = f"{name}.KEY" if name == "spark_conf" else name
        default = _DEFAULTS.get(name, _shown(name, getattr(usual, name)))
        yield _row(f"`{given}`", _values(Settings, name), default, text)


def _of_servers() -> Iterator[str]:
    parameters, usual = inspect.signature(serve).parameters, ServerSettings()
    for name, text in _described(ServerSettings):
        option = _OPTIONS.get(name, name)
        shown = f"`--{option.replace('_', '-')}`" if option in parameters else ""
        yield _row(f"`{name}`", shown, _values(ServerSettings, name), _shown(name, getattr(usual, name)), text)


def _described(settings: type) -> Iterator[tuple[str, str]]:
    """Name and text of each field, in the order of the docstring; fields may share a paragraph."""
    known = {field.name for field in fields(settings)}
    paragraph = re.compile(r"^    (\w+(?:, \w+)*) : .+\n((?:        .*\n)+)", re.MULTILINE)
    described = {
        name: match[2] for match in paragraph.finditer(settings.__doc__ or "") for name in match[1].split(", ")
    }
    assert described.keys() == known, f"described and declared differ: {described.keys() ^ known}"
    for name, text in described.items():
        yield name, " ".join(text.split()).replace("``", "`")


def _values(settings: type, name: str) -> str:
    """The values that a setting may have, in words."""
    kind = get_type_hints(settings)[name]
    if kind is bool:
        return "true or false"
    if allowed := choices(settings, name):
        return " or ".join(f"`{value}`" for value in allowed)
    if kind not in (float, int, int | None):
        return "texts, separated by commas" if kind == tuple[str, ...] else "text"
    words = "seconds" if kind is float else "bytes" if name.endswith("_bytes") else "a number"
    least, most = bounds(settings, name)
    words += f", at least {_shown(name, least)}" if least else ""
    return words if most is None else f"{words}, at most {most:g}"


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, int):
        return f"`{value}`" if value else ""
    units = (("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)) if name.endswith("_bytes") and value else ()
    return next((f"{value // size}{unit}" for unit, size in units if value % size == 0), str(value))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    print(page(), end="")
