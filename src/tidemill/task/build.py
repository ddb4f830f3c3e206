"""The operator of each kind of program step."""

from __future__ import annotations

from tidemill.task import program
from tidemill.task.operator import Operator
from tidemill.task.operators.apply_book import ApplyBookOperator
from tidemill.task.operators.apply_changelog import ApplyChangelogOperator
from tidemill.task.operators.apply_file_versions import ApplyFileVersionsOperator
from tidemill.task.operators.arrange import ArrangeOperator
from tidemill.task.operators.arrange_messages import ArrangeMessagesOperator
from tidemill.task.operators.calculate import CalculateOperator
from tidemill.task.operators.concatenate import ConcatenateOperator
from tidemill.task.operators.explode import ExplodeOperator
from tidemill.task.operators.group_changes import GroupChangesOperator
from tidemill.task.operators.group_partial import GroupPartialOperator
from tidemill.task.operators.join import JoinOperator
from tidemill.task.operators.lookup_join import LookupJoinOperator
from tidemill.task.operators.pair_sums import PairSumsOperator
from tidemill.task.operators.recursion import RecursionOperator
from tidemill.task.operators.repeat_rows import RepeatRowsOperator
from tidemill.task.operators.scan import ScanOperator
from tidemill.task.operators.semi_join import SemiJoinOperator
from tidemill.task.operators.store import StoreKeyedOperator, StoreRowsOperator
from tidemill.task.operators.top import TopOperator
from tidemill.task.operators.view_snapshot import ViewSnapshotOperator
from tidemill.task.operators.window import WindowOperator


def build(step: int, operation: program.Operation) -> Operator:
    """The operator that carries out ``operation`` as step number ``step``."""
    match operation:
        case program.ScanStep():
            return ScanOperator(step, operation)
        case program.ViewSnapshot():
            return ViewSnapshotOperator(step, operation)
        case program.Calculate():
            return CalculateOperator(step, operation)
        case program.Explode():
            return ExplodeOperator(step, operation)
        case program.Concatenate():
            return ConcatenateOperator(step)
        case program.GroupPartial():
            return GroupPartialOperator(step, operation)
        case program.GroupChanges():
            return GroupChangesOperator(step, operation)
        case program.PairSums():
            return PairSumsOperator(step, operation)
        case program.Arrange():
            return ArrangeOperator(step, operation)
        case program.JoinChanges():
            return JoinOperator(step, operation)
        case program.LookupJoin():
            return LookupJoinOperator(step, operation)
        case program.SemiChanges():
            return SemiJoinOperator(step, operation)
        case program.TopChanges():
            return TopOperator(step, operation)
        case program.WindowChanges():
            return WindowOperator(step, operation)
        case program.RecursiveChanges():
            return RecursionOperator(step, operation)
        case program.RepeatRows():
            return RepeatRowsOperator(step, operation)
        case program.StoreKeyed():
            return StoreKeyedOperator(step, operation)
        case program.StoreRows():
            return StoreRowsOperator(step, operation)
        case program.ArrangeMessages():
            return ArrangeMessagesOperator(step, operation)
        case program.ApplyChangelog():
            return ApplyChangelogOperator(step, operation)
        case program.ApplyBook():
            return ApplyBookOperator(step, operation)
        case program.ApplyFileVersions():
            return ApplyFileVersionsOperator(step, operation)
