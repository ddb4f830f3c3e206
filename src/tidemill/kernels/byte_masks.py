"""Wide loads and bit tricks for Numba kernels: 64 bytes become one 64-bit mask.

Everything here is an LLVM instruction that Numba does not offer, wrapped as an intrinsic. Comparing 64 bytes
with one byte compiles to one instruction with AVX-512, two with AVX2 and four with SSE2. The mask form of
structural indexing follows simdjson (https://arxiv.org/abs/1902.08318).

Hazard: no function checks bounds. The caller guarantees that the bytes touched lie within the array.
Byte order is little-endian, as on every platform that Spark and Arrow ship for.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]
from numba import config, types
from numba.core.imputils import impl_ret_untracked
from numba.extending import intrinsic as _numba_intrinsic
from numba.np.arrayobj import make_array

from tidemill.kernels.kernel import njit

kernel: Callable[..., Any] = njit(nogil=True, error_model="numpy")
"""Decorator of every compiled function here: cached on disk, releases the GIL, starts no thread. A division looks for
no zero, which would be a branch that keeps loops from becoming vector instructions."""

inlined: Callable[..., Any] = njit(nogil=True, forceinline=True, error_model="numpy")
"""Like ``kernel`` for a small function that must melt into its caller's loop."""

intrinsic: Callable[..., Any] = _numba_intrinsic

_I8 = ir.IntType(8)
_I64 = ir.IntType(64)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def byte_at(typing_context: Any, array: Any, index: Any) -> Any:
    """``array[index]`` as int64, without bounds or wrap-around checks."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(_address(context, builder, signature.args[0], args[0], args[1]))
        return impl_ret_untracked(context, builder, signature.return_type, builder.zext(loaded, _I64))

    return types.int64(array, types.int64), generate


@intrinsic
def item_at(typing_context: Any, array: Any, index: Any) -> Any:
    """``array[index]`` for an array of integers of 32 or 64 bits, without bounds or wrap-around checks."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(_address(context, builder, signature.args[0], args[0], args[1]))
        wide = loaded if loaded.type == _I64 else builder.sext(loaded, _I64)
        return impl_ret_untracked(context, builder, signature.return_type, wide)

    return types.int64(array, types.int64), generate


@intrinsic
def put_item(typing_context: Any, array: Any, index: Any, item: Any) -> Any:
    """``array[index] = item`` for an array of integers and an int64, cut to its width, without any checks."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        held = address.type.pointee
        builder.store(args[2] if held == _I64 else builder.trunc(args[2], held), address)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def load_word(typing_context: Any, array: Any, index: Any) -> Any:
    """The 8 bytes ``array[index : index + 8]`` as uint64; the first byte is the lowest."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        loaded = builder.load(builder.bitcast(address, _I64.as_pointer()), align=1)
        return impl_ret_untracked(context, builder, signature.return_type, loaded)

    return types.uint64(array, types.int64), generate


@intrinsic
def store_word(typing_context: Any, array: Any, index: Any, word: Any) -> Any:
    """Write the 8 bytes of ``word`` to ``array[index : index + 8]``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], builder.bitcast(address, _I64.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), generate


def _splat(builder: Any, byte: Any, width: int) -> Any:
    """A vector of the low byte of an integer."""
    vector, place = ir.VectorType(_I8, width), ir.IntType(32)
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), builder.trunc(byte, _I8), ir.Constant(place, 0))
    lanes = ir.Constant(ir.VectorType(place, width), [0] * width)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), lanes)


def _compared(builder: Any, address: Any, operator: str, byte: Any) -> Any:
    """Which of the 64 bytes at an address stand in a relation to one byte, as a 64-bit mask."""
    loaded = builder.load(builder.bitcast(address, ir.VectorType(_I8, 64).as_pointer()), align=1)
    return builder.bitcast(builder.icmp_unsigned(operator, loaded, _splat(builder, byte, 64)), _I64)


@intrinsic
def equal_mask(typing_context: Any, array: Any, index: Any, byte: Any) -> Any:
    """Bit ``k`` of the result (uint64) tells whether ``array[index + k] == byte``, for k in 0..63."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = _compared(builder, _address(context, builder, signature.args[0], args[0], args[1]), "==", args[2])
        return impl_ret_untracked(context, builder, signature.return_type, mask)

    return types.uint64(array, types.int64, types.int64), generate


@intrinsic
def below_mask(typing_context: Any, array: Any, index: Any, byte: Any) -> Any:
    """Like :func:`equal_mask` for ``array[index + k] < byte``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = _compared(builder, _address(context, builder, signature.args[0], args[0], args[1]), "<", args[2])
        return impl_ret_untracked(context, builder, signature.return_type, mask)

    return types.uint64(array, types.int64, types.int64), generate


@intrinsic
def digit_mask(typing_context: Any, array: Any, index: Any) -> Any:
    """Like :func:`equal_mask` for ASCII digits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(_I8, 64)
        address = _address(context, builder, signature.args[0], args[0], args[1])
        loaded = builder.load(builder.bitcast(address, vector.as_pointer()), align=1)
        above_zero = builder.sub(loaded, ir.Constant(vector, [48] * 64))
        mask = builder.bitcast(builder.icmp_unsigned("<", above_zero, ir.Constant(vector, [10] * 64)), _I64)
        return impl_ret_untracked(context, builder, signature.return_type, mask)

    return types.uint64(array, types.int64), generate


def _move(width: int) -> Callable[..., Any]:
    def typed(typing_context: Any, array: Any, index: Any, out: Any, at: Any, byte: Any) -> Any:
        """Copy ``array[index : index + width]`` to ``out[at : at + width]``.

        Returns
        -------
        tuple of uint64
            Bit ``k`` of the first tells whether byte ``k`` is ``byte``, that of the second whether it is not ASCII.
        """
        pair = types.UniTuple(types.uint64, 2)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector, bits = ir.VectorType(_I8, width), ir.IntType(width)
            source = _address(context, builder, signature.args[0], args[0], args[1])
            target = _address(context, builder, signature.args[2], args[2], args[3])
            loaded = builder.load(builder.bitcast(source, vector.as_pointer()), align=1)
            builder.store(loaded, builder.bitcast(target, vector.as_pointer()), align=1)
            equal = builder.icmp_unsigned("==", loaded, _splat(builder, args[4], width))
            high = builder.icmp_signed("<", loaded, ir.Constant(vector, [0] * width))
            masks = [builder.bitcast(found, bits) for found in (equal, high)]
            words = [mask if width == 64 else builder.zext(mask, _I64) for mask in masks]
            return impl_ret_untracked(context, builder, pair, context.make_tuple(builder, pair, words))

        return pair(array, types.int64, out, types.int64, types.int64), generate

    return typed


move_32 = intrinsic(_move(32))
move_64 = intrinsic(_move(64))


COMPRESSES = bool(get_host_cpu_features().get("avx512vbmi2")) and not (config.CPU_NAME or config.CPU_FEATURES)
"""Whether the processor moves chosen bytes of 64 together in one instruction (AVX-512 VBMI2)."""


def _compress(builder: Any, bytes_: Any, word: Any) -> Any:
    """The bytes of 64 that a word chooses, moved together; zeros behind them."""
    vector, chosen = ir.VectorType(_I8, 64), ir.VectorType(ir.IntType(1), 64)
    function = builder.module.declare_intrinsic(
        "llvm.x86.avx512.mask.compress.v64i8", fnty=ir.FunctionType(vector, [vector, vector, chosen])
    )
    return builder.call(function, [bytes_, ir.Constant(vector, [0] * 64), builder.bitcast(word, chosen)])


def _put_places(most: int) -> Callable[..., Any]:
    def typed(typing_context: Any, out: Any, at: Any, base: Any, word: Any) -> Any:
        """Write the places of the set bits of a word, each added to ``base``, to an array of int32 from ``at`` on.

        Only the first ``most`` are written; the array must have room for so many, and what it then holds behind the
        last place says nothing. For processors that have ``COMPRESSES``.
        """

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            half = ir.IntType(32)
            numbers = ir.Constant(ir.VectorType(_I8, 64), list(range(64)))
            places = _compress(builder, numbers, args[3])
            first = builder.shuffle_vector(places, numbers, ir.Constant(ir.VectorType(half, most), list(range(most))))
            vector = ir.VectorType(half, most)
            bases = builder.insert_element(
                ir.Constant(vector, ir.Undefined), builder.trunc(args[2], half), ir.Constant(half, 0)
            )
            same = ir.Constant(ir.VectorType(half, most), [0] * most)
            bases = builder.shuffle_vector(bases, ir.Constant(vector, ir.Undefined), same)
            found = builder.add(builder.zext(first, vector), bases)
            target = _address(context, builder, signature.args[0], args[0], args[1])
            builder.store(found, builder.bitcast(target, vector.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(out, types.int64, types.int64, types.uint64), generate

    return typed


put_16_places = intrinsic(_put_places(16))
put_64_places = intrinsic(_put_places(64))


@intrinsic
def move_chosen(typing_context: Any, array: Any, index: Any, out: Any, at: Any, word: Any) -> Any:
    """Copy those of the 64 bytes at ``array[index]`` whose bit is set, one behind the other, to ``out[at:]``.

    64 bytes are written, whatever their number. For processors that have ``COMPRESSES``.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(_I8, 64)
        source = _address(context, builder, signature.args[0], args[0], args[1])
        target = _address(context, builder, signature.args[2], args[2], args[3])
        loaded = builder.load(builder.bitcast(source, vector.as_pointer()), align=1)
        moved = _compress(builder, loaded, args[4])
        builder.store(moved, builder.bitcast(target, vector.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, out, types.int64, types.uint64), generate


@intrinsic
def pointer_to(typing_context: Any, address: Any) -> Any:
    """An address (uint64) as a pointer, for ``numba.carray``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], _I8.as_pointer())

    return types.voidptr(types.uint64), generate


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Index (int64) of the lowest set bit; 64 for zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))
        return impl_ret_untracked(context, builder, signature.return_type, count)

    return types.int64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    """Number (int64) of zero bits above the highest set bit; 64 for zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))
        return impl_ret_untracked(context, builder, signature.return_type, count)

    return types.int64(types.uint64), generate


@intrinsic
def count_bits(typing_context: Any, word: Any) -> Any:
    """Number (int64) of set bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return impl_ret_untracked(context, builder, signature.return_type, builder.ctpop(args[0]))

    return types.int64(types.uint64), generate


@intrinsic
def multiply_high(typing_context: Any, left: Any, right: Any) -> Any:
    """The upper 64 bits of the product of two uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _I64)
        return impl_ret_untracked(context, builder, signature.return_type, high)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def float_from_bits(typing_context: Any, word: Any) -> Any:
    """The float64 whose IEEE 754 representation is ``word``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = builder.bitcast(args[0], ir.DoubleType())
        return impl_ret_untracked(context, builder, signature.return_type, number)

    return types.float64(types.uint64), generate


@intrinsic
def bits_of_float(typing_context: Any, number: Any) -> Any:
    """The IEEE 754 representation (uint64) of a float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = builder.bitcast(args[0], _I64)
        return impl_ret_untracked(context, builder, signature.return_type, word)

    return types.uint64(types.float64), generate


@inlined
def prefix_xor(word):
    """Bit ``k`` of the result is the XOR of bits 0..k: from quote positions to "inside quotes"."""
    word ^= word << np.uint64(1)
    word ^= word << np.uint64(2)
    word ^= word << np.uint64(4)
    word ^= word << np.uint64(8)
    word ^= word << np.uint64(16)
    word ^= word << np.uint64(32)
    return word


@inlined
def block_mask(array, index, size, byte):
    """:func:`equal_mask` that stops at ``size``: bits at or beyond the end of the bytes are zero."""
    if index + 64 <= size:
        return equal_mask(array, index, byte)
    mask = np.uint64(0)
    for k in range(size - index):
        if byte_at(array, index + k) == byte:
            mask |= np.uint64(1) << np.uint64(k)
    return mask
