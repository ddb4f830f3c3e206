"""The operators of all operations, one a file; each says which operation it carries out."""

from tidemill.task.operators import (  # noqa: F401  (declare what is in them)
    arrange,
    calculate,
    concatenate,
    explode,
    group_changes,
    group_partial,
    join,
    lookup_join,
    pair_sums,
    recursion,
    repeat_rows,
    scan,
    semi_join,
    store,
    top,
    view_snapshot,
    window,
)
from tidemill.task.operators.kept_tables import (  # noqa: F401
    apply_book,
    apply_changelog,
    apply_file_versions,
    arrange_messages,
)
