"""The loop that mends what an epoch failed for, and the one that runs a job until its results count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tidemill.errors import TidemillError
from tidemill.runtime.epoch.recovery import Remedy, recovering
from tidemill.runtime.job.epoch_programs import Prepared
from tidemill.runtime.job.epoch_run import run_until_right
from tidemill.runtime.job.superstep import TaskReport
from tidemill.sources.split import Split, SplitResult
from tidemill.sources.unreadable import UnreadableFilesError
from tidemill.state.versions.version import Run


def error(number: str) -> TidemillError:
    return TidemillError(number, "what", got="got", hint="hint")


def failing(*numbers: str) -> Callable[[], str]:
    """Fails with each of some errors, in turn, then gives an answer."""
    left = list(numbers)

    def attempt() -> str:
        if left:
            raise error(left.pop(0))
        return "done"

    return attempt


def raising(number: str) -> Callable[[TidemillError], None]:
    def apply(_: TidemillError) -> None:
        raise error(number)

    return apply


def test_each_error_has_its_remedy_and_the_attempt_is_made_again() -> None:
    applied: list[str] = []
    remedies = [Remedy([n], lambda e: applied.append(e.number), most) for n, most in (("TM1019", 1), ("TM1015", 2))]
    assert recovering(failing("TM1015", "TM1019", "TM1015"), remedies) == "done"
    assert applied == ["TM1015", "TM1019", "TM1015"]


@pytest.mark.parametrize(
    ("numbers", "raised", "times"),
    [
        (["TM4010"], "TM4010", 0),  # without a remedy
        (["TM1015", "TM1019", "TM1015", "TM1015"], "TM1015", 3),  # too often, though another was between
    ],
)
def test_what_cannot_be_mended_is_raised(numbers: list[str], raised: str, times: int) -> None:
    applied: list[TidemillError] = []
    with pytest.raises(TidemillError) as caught:
        recovering(failing(*numbers), [Remedy(["TM1019"], applied.append), Remedy(["TM1015"], applied.append, 2)])
    assert (caught.value.number, len(applied)) == (raised, times)


def test_an_error_of_a_remedy_takes_the_place_of_what_it_was_for() -> None:
    applied: list[str] = []
    remedies = [Remedy(["TM5001"], raising("TM1015")), Remedy(["TM1015"], lambda e: applied.append(e.number))]
    assert recovering(failing("TM5001"), remedies) == "done"
    assert applied == ["TM1015"]
    with pytest.raises(TidemillError, match="TM5008"):
        recovering(failing("TM5001"), [Remedy(["TM5001"], raising("TM5008"))])


def test_a_remedy_that_raises_what_it_was_given_does_not_help() -> None:
    def give_back(raised: TidemillError) -> None:
        raise raised

    with pytest.raises(TidemillError, match="TM4074"):
        recovering(failing("TM4074"), [Remedy(["TM4074"], give_back)])


def test_a_class_of_errors_has_a_remedy_whatever_their_numbers() -> None:
    found: list[Any] = []
    split = Split("t", "a", 0, 1, 1, 1)
    attempts = iter(
        [UnreadableFilesError([(split, error("TM5001"))]), UnreadableFilesError([(split, error("TM4010"))])]
    )

    def attempt() -> str:
        for raised in attempts:
            raise raised
        return "done"

    assert (
        recovering(attempt, [Remedy(UnreadableFilesError, lambda e: found.append(e.failures[0][1].number))]) == "done"
    )
    assert found == ["TM5001", "TM4010"]


class Programs:
    """Stands for the programs of a mill: ``usual`` serves every epoch, the other only those without rows of ``x``."""

    usual: Any = Prepared(None, None, (), {}, {})  # type: ignore[arg-type]
    quick: Any = Prepared(None, None, (), {}, {}, frozenset({"x"}))  # type: ignore[arg-type]


QUOTED = [Split("t", "a", 0, 5, 9, 1, False), Split("t", "a", 5, 9, 9, 1, None)]


def run_of(quoted: bool, moves: bool, asked: list[tuple[bool, list[bool | None]]], gives_up: bool = False) -> Any:
    """A job over a file whose second split begins within quotes, if ``quoted``; it guesses that it does not."""

    def run(prepared: Prepared, splits: Sequence[Split]) -> list[TaskReport]:
        asked.append((prepared is Programs.usual, [s.in_quotes for s in splits]))
        if gives_up and quoted and any(s.in_quotes is None for s in splits):
            raise error("TM4020")
        results = [SplitResult(s, bool(s.in_quotes), int(s.start == 0 and quoted), 1, 1, 0, 0) for s in splits]
        runs = [Run("x", "f", 0, 1, 1, 1, 1, 1)] if moves else []
        return [TaskReport(0, 0, runs, results)]

    return run


def wrong(quoted: bool) -> Any:
    def guesses(results: Sequence[SplitResult]) -> dict[Split, bool] | None:
        truth = {r.split: r.split.start > 0 and quoted for r in results}
        return None if all(r.assumed_in_quotes == truth[r.split] for r in results) else truth

    return guesses


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("quoted", [False, True])
def test_a_job_is_run_again_with_the_truth_and_with_the_usual_program(quoted: bool, moves: bool) -> None:
    asked: list[tuple[bool, list[bool | None]]] = []
    programs: Any = Programs()
    found = run_until_right(run_of(quoted, moves, asked), Programs.quick, QUOTED, programs, wrong(quoted))
    first, told = (False, [False, None]), [False, quoted]
    told_or_guessed = told if quoted else [False, None]
    assert asked == [first, *([(False, told)] if quoted else []), *([(True, told_or_guessed)] if moves else [])]
    assert (found.redone, found.prepared is Programs.usual) == (quoted + moves, moves)
    assert [r.split.in_quotes for r in found.results] == told_or_guessed


def test_an_error_that_a_guess_may_have_caused_is_tried_without_guesses() -> None:
    asked: list[tuple[bool, list[bool | None]]] = []
    programs: Any = Programs()
    found = run_until_right(run_of(True, False, asked, True), Programs.usual, QUOTED, programs, wrong(True))
    assert [quotes for _, quotes in asked] == [[False, None], [False]]
    assert (found.redone, [r.split.end for r in found.results]) == (1, [5])
    with pytest.raises(TidemillError, match="TM4020"):  # nothing was guessed
        run_until_right(lambda *_: failing("TM4020")(), Programs.usual, QUOTED[:1], programs, wrong(True))  # type: ignore[arg-type,return-value]
