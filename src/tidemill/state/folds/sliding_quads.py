"""Sums of quad-doubles over sliding frames, without a subtraction; frames as in :mod:`tidemill.state.folds.sliding`."""

from __future__ import annotations

import numpy as np

from tidemill.kernels.words import F64, F64_OUT, I64, Floats, Ints, kernel
from tidemill.state.folds.expansions import TERMS, add


@kernel(F64_OUT, F64, I64, I64)
def _slide_quads(terms: Floats, starts: Ints, ends: Ints) -> Floats:
    n = terms.size // 4
    frames = starts.size
    until = np.zeros(4 * n, np.float64)
    result = np.zeros(4 * frames, np.float64)
    back = np.zeros(4, np.float64)
    middle = 0
    reached = 0
    for i in range(frames):
        start = starts[i]
        end = ends[i]
        if start >= end:
            continue
        if start >= middle:
            middle = end
            reached = end
            back[:] = 0.0
            for j in range(end - 1, start - 1, -1):
                for t in range(4):
                    until[t * n + j] = until[t * n + j + 1] if j + 1 < end else 0.0
                for t in range(4):
                    if terms[t * n + j] != 0.0:
                        add(until, j, n, terms[t * n + j])
        while reached < end:
            for t in range(4):
                if terms[t * n + reached] != 0.0:
                    add(back, 0, 1, terms[t * n + reached])
            reached += 1
        for t in range(4):
            result[t * frames + i] = until[t * n + start]
        for t in range(4):
            if back[t] != 0.0:
                add(result, i, frames, back[t])
    return result


def slide_quads(quads: list[Floats], starts: Ints, ends: Ints) -> list[Floats]:
    """Quad-double sum of each frame, as four float64 columns; a frame without rows has 0.

    A queue of two stacks, as in :func:`tidemill.state.folds.sliding.slide_double_doubles`: each row is added at most
    twice, and nothing is left of a large value that is no longer in the frame.
    """
    assert len(quads) == TERMS
    flat = _slide_quads(np.concatenate(quads), starts, ends)
    return [flat[t * len(starts) : (t + 1) * len(starts)] for t in range(TERMS)]
