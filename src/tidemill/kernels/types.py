"""Types of compiled functions, as the texts that Numba reads: it is imported when a kernel is compiled or loaded."""

from __future__ import annotations

from collections.abc import Sequence


class Type(str):
    """A type; called with the types of arguments, the signature of a function that has it as its result."""

    __slots__ = ()

    def __call__(self, *arguments: str) -> str:
        return f"{self}({', '.join(arguments)})"


void, boolean = Type("void"), Type("boolean")
int8, int16, int32, int64 = Type("int8"), Type("int16"), Type("int32"), Type("int64")
uint8, uint16, uint32, uint64 = Type("uint8"), Type("uint16"), Type("uint32"), Type("uint64")
float32, float64 = Type("float32"), Type("float64")


def array(item: Type, dimensions: int, layout: str, readonly: bool = False) -> Type:
    """A NumPy array; its layout is ``C`` or, where there may be gaps, ``A``."""
    return Type(f"Array({item}, {dimensions}, '{layout}', readonly={readonly})")


def tuple_of(items: Sequence[Type]) -> Type:
    """A tuple."""
    return Type(f"Tuple(({', '.join(items)},))")
