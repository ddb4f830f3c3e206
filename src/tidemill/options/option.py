"""An option: its name, the values it takes, its default and what it is for.

Everything else follows from the declaration: how a text is read and refused, which names are known and how they are
spelt in hints, what ALTER TABLE may change, what is secret, and the reference ``docs/options.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidemill.errors import SECRET_OPTIONS, TidemillError, keep_secret, nearest

T = TypeVar("T", covariant=True)

_spelling: dict[str, str] = {}


@dataclass(frozen=True)
class Kind(Generic[T]):
    """The values that an option takes.

    Attributes
    ----------
    wanted : str
        What they are, for hints and the reference: ``true or false``.
    read : callable
        Reads a text; raises ValueError for one that is no value, with a text that takes the place of ``wanted`` if
        there is more to say.
    """

    wanted: str
    read: Callable[[str], T]


@dataclass(frozen=True)
class Option(Generic[T]):
    """An option, declared once.

    Attributes
    ----------
    name : str
        As it is written; it is found in any case. One that ends in ``.*`` is a family: ``parser.*`` is ``parser.a`` for
        the column ``a``.
    kind : Kind
    default : object
        The value when it is not given.
    summary : str
        What it is for, for the reference.
    shown : str
        The default as one would write it, where that is not the text of ``default``.
    alterable : bool
        Whether ALTER TABLE may change it.
    secret : bool
        Whether its value is neither shown nor stored.
    """

    name: str
    kind: Kind[T]
    default: T
    summary: str
    shown: str = ""
    alterable: bool = False
    secret: bool = False

    def __post_init__(self) -> None:
        spell([self.name])
        if self.secret:
            keep_secret((self.name,))

    @property
    def key(self) -> str:
        """The name in lower case, by which parsed options are known."""
        return self.name.lower()

    @property
    def shown_default(self) -> str:
        """The default, as it is written; empty where there is none."""
        if self.shown or self.default is None:
            return self.shown
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)

    def text(self, options: Mapping[str, str]) -> str | None:
        """What is given for it, None when nothing is; names of ``options`` are in lower case."""
        return options.get(self.key)

    def of(self, options: Mapping[str, str]) -> T:
        """Its value; names of ``options`` are in lower case. TM4003 for a text that is no value."""
        text = options.get(self.key)
        return self.default if text is None else read_value(self.name, self.kind, text)

    def bad(self, value: str, hint: str) -> TidemillError:
        """TM4003 for a value of it."""
        return bad_option(self.name, value, hint)


@dataclass(frozen=True)
class OptionGroup:
    """Options that go together, a section of the reference.

    Attributes
    ----------
    title : str
    about : str
        Which tables take them.
    options : tuple of Option
    """

    title: str
    about: str
    options: tuple[Option[object], ...]

    @property
    def keys(self) -> frozenset[str]:
        """Their names in lower case."""
        return frozenset(option.key for option in self.options)

    def given(self, options: Iterable[str]) -> list[str]:
        """Those of some names, in any case, that are of this group, as they are spelt and sorted."""
        return sorted(spelt(name) for name in options if name.lower() in self.keys)


def read_value(name: str, kind: Kind[T], text: str) -> T:
    """The value that a text is, for an option of a name. TM4003 for one that is none."""
    try:
        return kind.read(text)
    except ValueError as error:
        raise bad_option(name, text, str(error) or kind.wanted) from error


def spell(names: Iterable[str]) -> None:
    """Learn how options are spelt, for hints."""
    _spelling.update((name.lower(), name) for name in names)


def spelt(name: str) -> str:
    """The spelling of an option that is given in any case."""
    return _spelling.get(name.lower(), name)


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """Options with their names in lower case."""
    return {name.lower(): value for name, value in options.items()}


def bad_option(name: str, value: str, hint: str) -> TidemillError:
    """TM4003: a value that an option does not take. Values of secrets are not shown."""
    got = "***" if name.lower() in SECRET_OPTIONS else repr(value)
    return TidemillError("TM4003", f"bad value of option {name}", got=got, hint=hint)


def check_options(name: str, given: Iterable[str], known: Collection[str]) -> None:
    """Check that options exist.

    Parameters
    ----------
    name : str
        The format.
    given : iterable of str
        Names in any case.
    known : collection of str
        Names in lower case; one that ends in ``*`` is for all names that begin so.

    Raises
    ------
    TidemillError
        TM4005 for an option that does not exist.
    """
    families = tuple(option.removesuffix("*") for option in known if option.endswith("*"))
    for option in given:
        if option.lower() not in known and not option.lower().startswith(families):
            hint = nearest(option, [spelt(known_name) for known_name in known])
            raise TidemillError("TM4005", f"unknown option for a table USING {name}", got=option, hint=hint)
