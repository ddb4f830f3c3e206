"""Grouping equal byte strings with a hash table."""

from __future__ import annotations

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import I64, I64_OUT, U8, Bytes, Ints, equal, kernel
from tidemill.state.keys.encoding import hash_bytes

_INITIAL_SLOTS = 4096
_BLOCK = 64


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64, U8)
def group_rows(offsets: Ints, data: Bytes) -> tuple[Ints, Ints]:
    """Group id of each byte string, dense in order of first appearance, and the first row of each group.

    Open addressing; a slot holds the upper half of the hash and the first row of the group plus one, so that
    a probe of a foreign group touches one cache line and no key. Rows are hashed in blocks and the slots of a
    block read ahead: these reads miss the cache side by side, those of the probes would one after the other.
    """
    n = offsets.size - 1
    ids = np.empty(n, np.int64)
    firsts = np.empty(n, np.int64)
    hashes = np.empty(n, np.uint64)
    codes = np.empty(_BLOCK, np.uint64)
    ahead = np.empty(_BLOCK, np.uint64)
    slots = np.zeros(_INITIAL_SLOTS, np.uint64)
    mask = np.uint64(_INITIAL_SLOTS - 1)
    upper = np.uint64(0xFFFFFFFF00000000)
    groups = 0
    for block in range(0, n, _BLOCK):
        if np.uint64(2 * (groups + _BLOCK)) > mask:
            mask = (mask << np.uint64(2)) | np.uint64(3)
            slots = np.zeros(int(mask) + 1, np.uint64)
            for group in range(groups):
                code = hashes[group]
                at = code & mask
                while slots[at] != 0:
                    at = (at + np.uint64(1)) & mask
                slots[at] = (code & upper) | np.uint64(firsts[group] + 1)
        size = min(_BLOCK, n - block)
        for k in range(size):
            codes[k] = hash_bytes(data, offsets[block + k], offsets[block + k + 1])
            ahead[k] = slots[codes[k] & mask]
        for k in range(size):
            i = block + k
            start = offsets[i]
            end = offsets[i + 1]
            code = codes[k]
            at = code & mask
            while True:
                slot = slots[at]
                if slot == 0:
                    slots[at] = (code & upper) | np.uint64(i + 1)
                    firsts[groups] = i
                    hashes[groups] = code
                    ids[i] = groups
                    groups += 1
                    break
                if (slot ^ code) & upper == 0:
                    first = int(slot & ~upper) - 1
                    if equal(data, start, end, data, offsets[first], offsets[first + 1]):
                        ids[i] = ids[first]
                        break
                at = (at + np.uint64(1)) & mask
    return ids, firsts[:groups].copy()
