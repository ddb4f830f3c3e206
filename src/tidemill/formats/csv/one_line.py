"""Rows that are one line each, with ``multiLine 'false'``: a quote that is open at the end of its line is text.

Lines are found without regard to quotes, so splits need nothing from each other. Phase 1 is the same as for rows that
span lines, since the two differ only in a line that leaves a quote open: there, the bytes from the quote to the end of
the line are covered with a byte that means nothing, in a copy in which phase 1 looks for separators. Phase 2 reads the
text itself, whose quote is not closed.

Plain twin: :mod:`tests.formats.csv_reference`.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.csv.options import CsvOptions
from tidemill.formats.text.delimiters import ROW_END, delimiter_table, walk_rows
from tidemill.formats.text.line_ends import CARRIAGE_RETURN, NEWLINE, OPEN, QUOTED, Bytes, next_state, scan_row_ends
from tidemill.formats.values.field_text import TRIM_LEADING
from tidemill.kernels.byte_masks import byte_at, kernel


def without_open_quotes(data: Bytes, begin: int, options: CsvOptions) -> Bytes:
    """A buffer for phase 1: as it is, unless one of its lines leaves a quote open; then a copy that hides those.

    Parameters
    ----------
    data : ndarray of uint8
        Complete lines.
    begin : int
        First byte to look at.
    """
    if options.delimiters is None:
        leading = options.trim & TRIM_LEADING
        count, _, _, _, state = scan_row_ends(data, begin, options.separator, options.quote, leading, OPEN)
        if state != QUOTED and count == np.count_nonzero(data == NEWLINE):
            return data
        hidden = data.copy()
        hide_in_lines(hidden, begin, options.separator, options.quote, leading, _filler(options))
    else:
        full, lines = delimiter_table(options.delimiters), delimiter_table(options.plain_lines)
        rest = data[begin:]
        count, _, _, state = walk_rows(rest, full.following, full.actions, full.guide, full.open)
        all_lines = walk_rows(rest, lines.following, lines.actions, lines.guide, lines.open)[0]
        if state not in full.open_at_end and count == all_lines:
            return data
        hidden = data.copy()
        quoted = np.array([state in full.open_at_end for state in range(len(full.following))])
        end_size = len(options.delimiters.row_end)
        strips = options.delimiters.strips_return
        hide_in_delimited(
            hidden, begin, full.following, quoted, lines.following, lines.actions, end_size, strips, _filler(options)
        )
    hidden.flags.writeable = False
    return hidden


def _filler(options: CsvOptions) -> int:
    """A byte that no separator, line end, quote, escape or comment has, and no blank."""
    rules = options.general
    used = {*rules.separator, *rules.row_end, rules.quote, rules.escape, options.comment, *b" \t\r\n"}
    return next(byte for byte in range(1, 256) if byte not in used)


@kernel
def hide_in_lines(buf, begin, separator, quote, leading, filler):
    """Cover what stands behind quotes that their line leaves open; a carriage return before its end stays."""
    size = np.int64(buf.size)
    state = np.int64(OPEN)
    opened = np.int64(0)
    for i in range(begin, size + 1):
        if i == size or byte_at(buf, i) == NEWLINE:
            if state == QUOTED:
                end = i
                if end > opened and byte_at(buf, end - 1) == CARRIAGE_RETURN:
                    end -= 1
                buf[opened:end] = filler
            state = np.int64(OPEN)
            continue
        before = state
        state = np.int64(next_state(byte_at(buf, i), separator, quote, leading, state))
        if state == QUOTED and before != QUOTED:
            opened = np.int64(i)


@kernel
def hide_in_delimited(buf, begin, following, quoted, line_following, line_actions, end_size, strips, filler):
    """The same with the automaton of some delimiters, and that of the line ends alone.

    Parameters
    ----------
    quoted : ndarray of bool
        Which states of the former lie inside quotes.
    end_size : int
        Bytes of a line end.
    strips : bool
        Whether a carriage return before a line end belongs to it.
    """
    size = np.int64(buf.size)
    state = np.int64(0)
    line_state = np.int64(0)
    opened = np.int64(0)
    for i in range(begin, size + 1):
        at_end = i == size
        if not at_end:
            c = byte_at(buf, i)
            before = state
            state = np.int64(following[state, c])
            if quoted[state] and not quoted[before]:
                opened = np.int64(i)
            at_end = line_actions[line_state, c] == ROW_END
            line_state = np.int64(line_following[line_state, c])
        if at_end:
            if quoted[state]:
                end = size if i == size else i + 1 - end_size
                if strips and end > opened and byte_at(buf, end - 1) == CARRIAGE_RETURN:
                    end -= 1
                buf[opened:end] = filler
            state = np.int64(0)
