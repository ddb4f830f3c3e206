"""Summaries of buffers: the kernels against a plain walk, composition in any grouping, the frontier in any order."""

from __future__ import annotations

import random
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_form import examples
from tests.formats.csv_reference import plain_rows

from tidemill.formats.text.delimiters import Delimiters, delimiter_table
from tidemill.formats.text.line_ends import NO_BYTE, OPEN, PLAIN_LINES, QUOTED, TEXT, LineRules
from tidemill.formats.text.summaries import (
    Automaton,
    Frontier,
    Summary,
    compose,
    line_automaton,
    summarise,
)

EXAMPLES = examples(300)
BEHIND_MARK = 3

rules = st.sampled_from(
    [
        LineRules(ord(","), ord('"'), 0),
        LineRules(ord(","), ord('"'), 1),
        LineRules(ord(","), NO_BYTE, 0),
        LineRules(ord("a"), ord("'"), 0),
        PLAIN_LINES,
    ]
)
texts = st.one_of(
    st.lists(st.sampled_from([b'"', b",", b"\n", b"a", b"'", b" ", b"\r\n", b'",', b',"']), max_size=300).map(b"".join),
    st.lists(st.sampled_from([b'"', b"x" * 70, b"\n", b",", b"y" * 600]), max_size=12).map(b"".join),
    st.binary(max_size=200),
)
automata = st.one_of(
    rules.map(line_automaton),
    st.builds(
        Delimiters,
        st.sampled_from([b"", b",", b"a", b"::", b"b:b"]),
        st.sampled_from([b"\n", b"||", b"aab", b"aa,aa", b"\r\n"]),
        st.sampled_from([NO_BYTE, ord('"')]),
        st.sampled_from([NO_BYTE, ord("x")]),
        st.sampled_from([0, 1]),
    ).map(delimiter_table),
)


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def plain_walk(automaton: Automaton, data: bytes, state: int) -> tuple[int, int, int, int]:
    """The twin: one byte after the other."""
    ends = []
    for i, byte in enumerate(data):
        if automaton.ends_row[state, byte]:
            ends.append(i)
        state = int(automaton.following[state, byte])
    return state, len(ends), ends[0] if ends else -1, ends[-1] if ends else -1


def check(automaton: Automaton, summary: Summary, data: bytes, states: range) -> None:
    assert summary.size == len(data)
    for state in states:
        assert summary.from_state(state) == plain_walk(automaton, data, state)


@EXAMPLES
@given(rules, texts)
def test_the_kernel_equals_the_plain_walk(lines, data):
    automaton = line_automaton(lines)
    check(automaton, summarise(automaton, array(data), BEHIND_MARK), data, range(BEHIND_MARK))
    assert summarise(automaton, array(data), BEHIND_MARK).quotes == (
        lines.quote != NO_BYTE and bytes([lines.quote]) in data
    )


@EXAMPLES
@given(rules, st.sampled_from([b"", b"\xef", b"\xef\xbb", b"\xef\xbb\xbf", b"\xbb\xbf"]), texts, st.integers(0, 3))
def test_at_the_beginning_of_a_file_a_mark_may_stand(lines, mark, data, cut):
    automaton = line_automaton(lines)
    data = mark + data
    whole = summarise(automaton, array(data), 0)
    check(automaton, whole, data, range(automaton.start, automaton.start + 1))
    parts = compose(summarise(automaton, array(data[:cut]), 0), summarise(automaton, array(data[cut:]), cut))
    assert parts.from_state(automaton.start) == whole.from_state(automaton.start)


@EXAMPLES
@given(st.sampled_from([LineRules(ord(","), ord('"'), 0), LineRules(ord(","), ord('"'), 1)]), texts)
def test_row_ends_are_those_of_the_plain_reader(lines, data):
    automaton = line_automaton(lines)
    for state, before in ((OPEN, b"z,"), (TEXT, b"z"), (QUOTED, b'"')):
        rows = list(plain_rows(before + data + b"z", lines.separator, lines.quote, trim_leading=bool(lines.leading)))
        summary = summarise(automaton, array(data), BEHIND_MARK)
        end, _, _, last = summary.from_state(state)
        assert (end == QUOTED) == (not rows[-1].terminated)
        assert last == (rows[-1].position - len(before) - 1 if rows[-1].position else -1)


@EXAMPLES
@given(automata, st.lists(texts, min_size=3, max_size=3))
def test_composition_is_associative(automaton, pieces):
    a, b, c = (summarise(automaton, array(piece), BEHIND_MARK) for piece in pieces)
    states = range(min(len(automaton.following), BEHIND_MARK) if automaton.rules else len(automaton.following))
    data = b"".join(pieces)
    for grouped in (compose(compose(a, b), c), compose(a, compose(b, c))):
        check(automaton, grouped, data, states)
        assert np.array_equal(grouped.table, compose(compose(a, b), c).table)
    empty = summarise(automaton, array(b""), BEHIND_MARK)
    for one in (compose(a, empty), compose(empty, a)):
        assert np.array_equal(one.table[list(states)], a.table[list(states)])


@EXAMPLES
@given(st.sampled_from([b"||", b"aab", b"aa", b"abab"]), st.text("ab|", max_size=60), st.lists(st.integers(0, 60)))
def test_delimiters_of_several_bytes_match_from_left_to_right(delimiter, text, cuts):
    automaton = delimiter_table(Delimiters(b"", delimiter, NO_BYTE, NO_BYTE, 0))
    data = text.encode()
    places = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    total = summarise(automaton, array(b""), 0)
    for begin, end in pairwise(places):
        total = compose(total, summarise(automaton, array(data[begin:end]), begin))
    rows = data.split(delimiter)
    _, count, first, last = total.from_state(0)
    assert count == len(rows) - 1
    if count:
        assert first == len(rows[0]) + len(delimiter) - 1
        assert last == len(data) - len(rows[-1]) - 1


def test_quotes_and_escapes_with_a_long_delimiter():
    automaton = delimiter_table(Delimiters(b"", b"\r\n", ord('"'), ord("\\"), 0))
    data = b'"a\r\n"\r\nb"\r\n"\\"\r\n'
    state, count, first, last = summarise(automaton, array(data), 0).from_state(0)
    assert (count, first, last) == (2, 6, 10)
    assert state in automaton.open_at_end


@pytest.mark.parametrize("threads", [1, 8])
def test_the_frontier_settles_each_buffer_once_with_its_state(threads, seed):
    rng = random.Random(seed)
    automaton = line_automaton(LineRules(ord(","), ord('"'), 0))
    buffers = [bytes(rng.choices(b'",\nab', k=rng.randrange(6))) for _ in range(3000)]
    expected, state, position = [], automaton.start, 0
    for buffer in buffers:
        expected.append(state)
        state = plain_walk(automaton, buffer, state)[0]
    frontier: Frontier[bytes] = Frontier(automaton.start, first=900, largest=1000)
    positions = np.cumsum([0, *map(len, buffers)])
    found = []
    for chunk in range(0, len(buffers), 100):
        order = rng.sample(range(chunk, min(chunk + 100, len(buffers))), 100)

        def work(order=order):
            while order:
                try:
                    place = order.pop()
                except IndexError:
                    return
                position = int(positions[place])
                summary = summarise(automaton, array(buffers[place]), position)
                found.extend(frontier.settle((899 + place) % 1000 + 1, summary, buffers[place]))

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert frontier.waiting == 0
    assert position == 0
    assert len(found) == len(buffers)
    by_chunk = [(s.sequence, s.state, s.what) for s in found]
    wanted = [((899 + i) % 1000 + 1, expected[i], buffers[i]) for i in range(len(buffers))]
    assert sorted(by_chunk) == sorted(wanted)
    assert frontier.state == state
