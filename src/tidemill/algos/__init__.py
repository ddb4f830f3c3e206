"""Trading strategies that follow views: the same code over a trace and live."""

from tidemill.algos.account import Fill, Limits
from tidemill.algos.desk import Desk
from tidemill.algos.strategy import Strategy, ViewChange

__all__ = ["Desk", "Fill", "Limits", "Strategy", "ViewChange"]
