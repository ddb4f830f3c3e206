"""The operator of a step."""

from __future__ import annotations

from tidemill.task import operators  # noqa: F401  (each declares what it carries out)
from tidemill.task.dataflow.operator import Operator, operator_of
from tidemill.task.program import Operation


def build(step: int, operation: Operation) -> Operator:
    """The operator that carries out ``operation`` as step number ``step``."""
    return operator_of(operation)(step, operation)
