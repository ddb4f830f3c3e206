"""Connectors that packages offer: each names bytes behind the URLs of one scheme, and reads them."""

from tidemill.connectors.connector import GROWING, Connector, FileInfo, Reading, changed

__all__ = ["GROWING", "Connector", "FileInfo", "Reading", "changed"]
