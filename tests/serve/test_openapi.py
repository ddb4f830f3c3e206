"""The OpenAPI description against the server: schemathesis sends what it allows, and what it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from schemathesis.checks import not_a_server_error
from serving import Served
from test_http import orders, write

ServeFactory = Callable[..., Served]

_EXAMPLES = 12
_LEFT_OUT = ("/v1/views/{name}/changes", "/v1/changes")
"""What never ends where it succeeds; tests of events are about these."""


_INSPECTED = {
    *("/v1/adaptors", "/v1/adaptors/{name}", "/v1/logs", "/v1/queues", "/v1/sources", "/v1/state", "/v1/vocabulary"),
    *("/v1/queries/{name}/pause", "/v1/queries/{name}/resume", "/v1/queries/{name}/graph", "/v1/views/{name}/first"),
    *("/v1/readers/{name}/pause", "/v1/readers/{name}/resume", "/v1/results", "/v1/cursors/{cursor}/fetch"),
}
"""Some of what must be among the operations: a router that is left out would not be noticed otherwise."""


def test_no_request_makes_the_server_fail(serve: ServeFactory, tmp_path: Path, seed: int) -> None:
    served = serve(adaptors=True)
    data = orders(served, tmp_path)
    write(data, "a.csv", (1, 1.0, "I"))
    served.mill.advance()
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert {operation.path for operation in operations} >= _INSPECTED
    tried = 0
    for operation in operations:
        if operation.path in _LEFT_OUT:
            continue

        @settings(
            max_examples=_EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        @hypothesis_seed(seed)
        def attempt(case: schemathesis.Case) -> None:
            nonlocal tried
            tried += 1
            response = case.call(timeout=30)
            case.validate_response(response, checks=[not_a_server_error])
            assert response.status_code < 500 and "Traceback" not in response.text

        attempt()
    assert tried > len(operations)
    assert served.http.get("/readyz").status_code == 200
