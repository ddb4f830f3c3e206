"""Cursors: named positions in the changes of views, which outlive the server."""
