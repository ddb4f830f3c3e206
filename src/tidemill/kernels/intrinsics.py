"""Instructions for compiled functions that Numba does not offer, on unaligned words and 128 bits.

Imported when a kernel is compiled or loaded: :mod:`tidemill.kernels.words` names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


def _address(context: Any, builder: Any, array_type: Any, array: Any, position: Any, bits: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    address = builder.add(builder.ptrtoint(data, ir.IntType(64)), position)
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _load64(_: Any, array: Any, position: Any) -> Any:
    """``array[position:position + 8]`` of a byte array as a big-endian word, unaligned and unchecked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _address(context, builder, signature.args[0], arguments[0], arguments[1], 64)
        return builder.bswap(builder.load(pointer, align=1))

    return types.uint64(array, types.int64), generate


def _load64_at(_: Any, address: Any) -> Any:
    """The 8 bytes at an address as a big-endian word, unaligned."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.bswap(builder.load(pointer, align=1))

    return types.uint64(types.int64), generate


def _load8_at(_: Any, address: Any) -> Any:
    """The byte at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))

    return types.uint8(types.int64), generate


def _prefetch(_: Any, address: Any) -> Any:
    """Bring the cache line at an address nearer, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        type_ = ir.FunctionType(ir.VoidType(), (byte, word, word, word))
        function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), type_)
        options = (ir.Constant(word, number) for number in (0, 3, 1))  # to read, soon again, data
        builder.call(function, (builder.inttoptr(arguments[0], byte), *options))
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _store(bits: int) -> Callable[..., Any]:
    def typed(_: Any, array: Any, position: Any, word: Any) -> Any:
        """Write the low bits of a word big endian, unaligned and unchecked."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _address(context, builder, signature.args[0], arguments[0], arguments[1], bits)
            value = arguments[2] if bits == 64 else builder.trunc(arguments[2], ir.IntType(bits))
            builder.store(builder.bswap(value), pointer, align=1)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.uint64), generate

    return typed


def _mulhi(_: Any, left: Any, right: Any) -> Any:
    """High word of the 128-bit product of two unsigned words."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


def _fma(_: Any, left: Any, right: Any, addend: Any) -> Any:
    """``left * right + addend`` with one rounding."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


def _pointer(_: Any, address: Any) -> Any:
    """An integer address as a pointer, for ``numba.carray``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.uint64), generate


def _crc32(_: Any, function: Any, address: Any, length: Any) -> Any:
    """What the function at an address, of the signature of ISA-L's ``crc32_gzip_refl``, computes of some bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        type_ = ir.FunctionType(word, (word, byte, ir.IntType(64)))
        called = builder.inttoptr(arguments[0], type_.as_pointer())
        return builder.call(called, (ir.Constant(word, 0), builder.inttoptr(arguments[1], byte), arguments[2]))

    return types.uint32(types.uint64, types.uint64, types.uint64), generate


load64 = intrinsic(_load64)
load64_at = intrinsic(_load64_at)
load8_at = intrinsic(_load8_at)
prefetch = intrinsic(_prefetch)
store64 = intrinsic(_store(64))
store32 = intrinsic(_store(32))
multiply_high = intrinsic(_mulhi)
fused_multiply_add = intrinsic(_fma)
as_pointer = intrinsic(_pointer)
call_crc32 = intrinsic(_crc32)
