"""Writes ``docs/traces.md`` from the declarations of spans.

The command is ``python -m tidemill.serve.traces.page > docs/traces.md``.
"""

from __future__ import annotations

from tidemill.observing import SPANS

_PAGE = """# Traces

<!-- Written by `python -m tidemill.serve.traces.page`; a test compares it with the declarations. -->

`tidemill serve --traces` records traces with OpenTelemetry, which the extra `traces` installs:

```
pip install 'tidemill[traces]'
export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
tidemill serve --root DIR --traces
```

The environment variables of OpenTelemetry decide where they go, and which are recorded:

| variable | meaning |
|---|---|
| `OTEL_TRACES_EXPORTER` | `otlp` (the default), `console`, `none`, or one that is installed; several with commas |
| `OTEL_EXPORTER_OTLP_ENDPOINT`, `..._HEADERS`, `..._TIMEOUT`, ... | of the collector |
| `OTEL_EXPORTER_OTLP_PROTOCOL` | `http/protobuf`, which the extra installs, or `grpc` |
| `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | which traces are recorded; all by default |
| `OTEL_BSP_*` | how many spans wait, and how long |
| `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` | `tidemill` is the default name |
| `OTEL_SDK_DISABLED` | `true` records nothing |

Spans are exported in the background, in batches. A collector that does not answer delays neither epochs nor requests,
and the end of the server by five seconds at most. Where traces are off, nothing of the SDK is imported, and a span
costs one look-up.

## Spans

A trace is an epoch, a checkpoint, a wave of compactions, a request or a statement. Epochs that had nothing to do are
no spans. Neither values of rows nor the text of statements are attributes.

Names of attributes begin with `tidemill.`, but for those of OpenTelemetry's conventions. A span that ended with an
error has the status *error* and the number of the error, such as `TM1020`, as `error.type`.

| span | attributes | meaning |
|---|---|---|
"""


def attribute_name(name: str) -> str:
    """An attribute as it is recorded."""
    return name if name.startswith("http.") else f"tidemill.{name}"


def traces_page() -> str:
    """docs/traces.md."""
    rows = []
    for kind in SPANS:
        shown = ", ".join(f"`{attribute_name(name)}`" for name in kind.attributes)
        rows.append(f"| `{kind.name}` | {shown} | {kind.meaning} |\n")
    return _PAGE + "".join(rows)


if __name__ == "__main__":
    print(traces_page(), end="")
