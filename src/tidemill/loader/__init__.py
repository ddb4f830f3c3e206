"""Loading data for training: batches in an order that is always the same, resumed at the row."""

from tidemill.loader.loader import Loader

__all__ = ["Loader"]
