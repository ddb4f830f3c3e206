"""The numbered errors of writing and reading files of state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tidemill.errors import TidemillError
from tidemill.state.store.file_names import host_of, this_host
from tidemill.state.versions.objects import UncertainError, advice


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Raise errors of writing a durable object with their numbers: TM1014, TM1015."""
    try:
        yield
    except UncertainError as error:
        raise TidemillError(
            "TM1015",
            "a checkpoint failed",
            got=str(error),
            hint="repair the disk and run again: the last checkpoint is intact, and the mill continues from it",
        ) from error
    except OSError as error:
        raise TidemillError(
            "TM1014",
            "a checkpoint could not be written",
            got=str(error).splitlines()[0],
            hint=advice(error, "the last checkpoint is intact"),
        ) from error


def not_fetched(error: OSError) -> TidemillError:
    """TM1016: a durable state file cannot be fetched, or they cannot be listed."""
    return TidemillError(
        "TM1016",
        "a state file could not be fetched",
        got=str(error).splitlines()[0],
        hint="nothing was changed; the next epoch or query tries again",
    )


def not_here(file: str, error: TidemillError) -> TidemillError:
    """The error for a file of a buffer that is missing in this process, when it is another host's."""
    if error.number != "TM1018" or host_of(file) == this_host():
        return error
    return TidemillError(
        "TM1019",
        "sealed state lies in the buffer of another host",
        got=error.got,
        hint="the mill makes it durable and repeats the epoch by itself; hosts that share a buffer directory are "
        "one host: give them the same TIDEMILL_HOST",
    )
