"""Errors of this protocol: an SQLSTATE beside the number."""

from __future__ import annotations

from tidemill.errors import TidemillError

_STATES = {
    "TM2001": "42601",
    "TM2003": "42601",
    "TM2004": "42703",
    "TM2010": "42P07",
    "TM2011": "42P07",
    "TM2012": "42P01",
    "TM2016": "22000",
    "TM2024": "25006",
    "TM2036": "42P01",
    "TM2901": "54001",
    "TM1030": "55000",
    "TM1031": "22023",
    "TM1032": "55000",
    "TM1033": "55000",
    "TM1039": "55000",
    "TM6003": "57P03",
    "TM7001": "42601",
    "TM7012": "57P01",
    "TM7014": "57014",
    "TM8004": "42501",
    "TM8012": "54000",
    "TM8024": "53400",
    "TM8099": "XX000",
    "TM8100": "58000",
    "TM8101": "08P01",
    "TM8102": "0A000",
    "TM8103": "28P01",
    "TM8104": "28000",
    "TM8105": "53300",
    "TM8106": "25P03",
    "TM8107": "57P01",
    "TM8110": "25006",
    "TM8111": "0A000",
    "TM8112": "57014",
    "TM8113": "53200",
    "TM8114": "25P02",
    "TM8115": "25001",
    "TM8116": "26000",
    "TM8117": "42P05",
    "TM8118": "22P02",
    "TM8119": "22023",
    "TM8128": "22023",
    "TM8129": "3B001",
    "TM8120": "42601",
    "TM8121": "42501",
    "TM8122": "0A000",
    "TM8123": "42601",
    "TM8124": "54001",
    "TM8125": "42703",
    "TM8126": "22000",
    "TM8127": "42501",
}
_CLASSES = {"1": "58000", "2": "42000", "3": "22000", "4": "22000", "5": "58000", "6": "58000", "7": "42000"}
"""By the first digit, for numbers that have no state of their own."""


class PostgresError(TidemillError):
    """An error whose SQLSTATE is another one than that of its number."""

    def __init__(self, number: str, what: str, got: str = "", hint: str = "", state: str = "") -> None:
        super().__init__(number, what, got, hint)
        self.state = state


def sql_state(error: TidemillError) -> str:
    """The SQLSTATE of an error: five characters, of PostgreSQL's appendix A."""
    given = error.state if isinstance(error, PostgresError) else ""
    return given or _STATES.get(error.number) or _CLASSES.get(error.number[2], "XX000")


def not_understood(got: str) -> TidemillError:
    """TM8101: bytes that are no message, or one that does not belong here."""
    return TidemillError(
        "TM8101",
        "this is no message of PostgreSQL's protocol",
        got=got,
        hint="the connection is closed; others are not affected",
    )


def cancelled(why: str) -> TidemillError:
    """TM8112: somebody, or a limit on time, has ended a statement."""
    return TidemillError("TM8112", "the statement was cancelled", got=why, hint="the views are not affected")


def not_supported(got: str, hint: str) -> TidemillError:
    """TM8111: a statement that PostgreSQL has and this server has not."""
    return TidemillError("TM8111", "this statement is not supported over PostgreSQL's protocol", got=got, hint=hint)


def failed(error: Exception) -> TidemillError:
    """TM8099: a bug of the server."""
    return TidemillError(
        "TM8099",
        "the server failed to answer this request",
        got=type(error).__name__,
        hint="the server's log has more; others are not affected",
    )
