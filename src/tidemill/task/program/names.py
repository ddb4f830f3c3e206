"""The names of this package."""

from tidemill.state.tables import StateTable, multiset_table
from tidemill.task.program.group_steps import Comparison, GroupChanges, GroupPartial, PairSums, Term, changes_probe_left
from tidemill.task.program.in_order_steps import (
    ArrowColumns,
    ArrowFilter,
    Gather,
    Limit,
    LookUp,
    MergeJoin,
    MergeSorted,
    PartRows,
    StreamingGroups,
    Unnest,
)
from tidemill.task.program.join_steps import JoinChanges, LookupJoin, SemiChanges
from tidemill.task.program.operation import Operation
from tidemill.task.program.order_steps import TopChanges, WindowChanges
from tidemill.task.program.programs import (
    TABLE_STEPS,
    Input,
    Program,
    ProgramPart,
    Step,
    ViewLimit,
    ViewSnapshot,
    consumers_of,
)
from tidemill.task.program.read_plan import ReadPlan
from tidemill.task.program.recursion_steps import RecursionJoin, RecursionPath, RecursiveChanges
from tidemill.task.program.row_steps import (
    Arrange,
    Calculate,
    Concatenate,
    Explode,
    RepeatRows,
    ScanStep,
    StoreKeyed,
    StoreRows,
)
from tidemill.task.program.source_steps import GiveRows, ReadFiles
from tidemill.task.program.table_steps import ApplyBook, ApplyChangelog, ApplyFileVersions, ArrangeMessages
from tidemill.task.program.tables import Changelog, FileVersions, TableSource

__all__ = [
    "TABLE_STEPS",
    "ApplyBook",
    "ApplyChangelog",
    "ApplyFileVersions",
    "Arrange",
    "ArrangeMessages",
    "ArrowColumns",
    "ArrowFilter",
    "Calculate",
    "Changelog",
    "Comparison",
    "Concatenate",
    "Explode",
    "FileVersions",
    "Gather",
    "GiveRows",
    "GroupChanges",
    "GroupPartial",
    "Input",
    "JoinChanges",
    "Limit",
    "LookUp",
    "LookupJoin",
    "MergeJoin",
    "MergeSorted",
    "Operation",
    "PairSums",
    "PartRows",
    "Program",
    "ProgramPart",
    "ReadFiles",
    "ReadPlan",
    "RecursionJoin",
    "RecursionPath",
    "RecursiveChanges",
    "RepeatRows",
    "ScanStep",
    "SemiChanges",
    "StateTable",
    "Step",
    "StoreKeyed",
    "StoreRows",
    "StreamingGroups",
    "TableSource",
    "Term",
    "TopChanges",
    "Unnest",
    "ViewLimit",
    "ViewSnapshot",
    "WindowChanges",
    "changes_probe_left",
    "consumers_of",
    "multiset_table",
]
