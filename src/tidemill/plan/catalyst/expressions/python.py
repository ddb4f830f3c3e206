"""Functions written by the user in Python, as Catalyst has them: ``PythonUDF``, computed by ``ArrowEvalPython``."""

from __future__ import annotations

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.catalyst.expressions.rules import Rule, Translator, call, type_of
from tidemill.plan.catalyst.expressions.zones import zone_option
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import TIMESTAMP
from tidemill.task.expressions import Expression
from tidemill.task.functions.python_functions import KINDS, PANDAS, PANDAS_ITERATOR, ROW_KINDS, python_version

_MOST_BYTES = 1_000_000


def _python_udf(node: JsonTree, to: Translator) -> Expression:
    name, kind = str(node.fields["name"]), int(node.fields["evalType"])
    if not node.fields["udfDeterministic"]:
        raise refused(name, "it is declared not deterministic", "a view needs a function of its arguments alone")
    if kind not in KINDS:
        raise refused(
            name, "it is no function of values of a row", "scalar functions are supported, aggregates are not"
        )
    args, type_ = to.args(node), type_of(node.fields["dataType"])
    types = (type_, *(a.type for a in args))
    if kind not in ROW_KINDS and any(map(pa.types.is_struct, types)):
        raise refused(name, "pandas and Arrow functions of structs", "use a function of rows, or the fields")
    zone = {} if kind in ROW_KINDS or not any(map(_has_instants, types)) else zone_option(node)
    if zone and kind in (PANDAS, PANDAS_ITERATOR) and any(_has_instants(t) for t in types if t != TIMESTAMP):
        raise refused(
            name,
            f"a pandas function of TIMESTAMPs in other values, in the time zone {zone['zone']}",
            "use a function of rows, or of TIMESTAMP_NTZ",
        )
    if not args:
        raise refused(name, "it has no arguments", "write a constant")
    java = node.fields["java"].node.func()
    if java.broadcastVars().size():
        raise refused(name, "it uses a broadcast variable", "let it use a constant")
    command = bytes(java.command().unsafeArray())
    if len(command) > _MOST_BYTES:
        raise refused(name, f"it is {len(command)} bytes", "let it load large data from a module")
    options = {"name": name, "kind": kind, "command": command, "python": python_version()}
    return call("python_function", args, type_, True, **options, **zone)


def _has_instants(type_: pa.DataType) -> bool:
    return type_ == TIMESTAMP or any(_has_instants(type_.field(i).type) for i in range(type_.num_fields))


def refused(name: str, why: str, hint: str) -> TidemillError:
    """TM2107 for a user's function."""
    return TidemillError("TM2107", "a view cannot call a function written by the user", got=f"{name}: {why}", hint=hint)


PYTHON_RULES: dict[str, Rule] = {"PythonUDF": _python_udf}
