"""Targets of sinks: where the rows and changes of views are written (docs/sinks.md). One file for each target."""
