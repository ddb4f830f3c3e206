"""``GET /v1/queries/{name}/graph``: the plan of a view, with what each step did."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from tidemill.plan.explain.graph import PlanStep
from tidemill.runtime.epoch.report import OperatorReport
from tidemill.serve.http.callers import READ, WITH_TOKEN, Served
from tidemill.serve.http.inspection.models import Counters, GraphStep, PlanGraph, StepInput, StepTable
from tidemill.serve.http.views import ViewName

router = APIRouter(tags=["inspection"], dependencies=[*WITH_TOKEN, READ])


@router.get("/v1/queries/{name}/graph", summary="The plan of a query as a graph, with counters")
def plan_graph(name: ViewName, service: Served) -> PlanGraph:
    """Its steps, the exchanges between them, and the rows and task time of each."""
    service.check_view(name)
    plan = service.programs.plan(name.lower())
    ran = plan.ran
    newest, total = ((), ()) if ran is None else (ran.newest, tuple(ran.totals))
    return PlanGraph(
        epoch=service.mill.epoch,
        view=name.lower(),
        first_epoch=None if ran is None else ran.first_epoch,
        last_epoch=None if ran is None else ran.last_epoch,
        epochs=0 if ran is None else ran.epochs,
        steps=[_step(step, newest, total) for step in plan.steps],
    )


def _step(step: PlanStep, newest: Sequence[OperatorReport], total: Sequence[OperatorReport]) -> GraphStep:
    return GraphStep(
        step=step.step,
        operation=step.operation,
        text=step.text,
        superstep=step.superstep,
        cost=step.cost,
        views=list(step.views),
        inputs=[StepInput(step=i.step, port=i.port, exchange=i.exchange) for i in step.inputs],
        tables=_tables(step),
        newest=_counters(newest, step.step),
        total=_counters(total, step.step),
    )


def _tables(step: PlanStep) -> list[StepTable]:
    found = []
    for table in dict.fromkeys((*step.written, *step.read)):
        both = table in step.written and table in step.read
        use = "appended" if table in step.written else "looked up"
        found.append(StepTable(table=table, use="looked up and appended" if both else use))  # type: ignore[arg-type]
    return found


def _counters(operators: Sequence[OperatorReport], step: int) -> Counters | None:
    """Of a step; operators are in the order of the steps."""
    if not operators:
        return None
    found = operators[step]
    return Counters(
        rows_in=found.rows_in,
        rows_out=found.rows_out,
        batches=found.batches,
        milliseconds=round(found.milliseconds, 2),
    )
