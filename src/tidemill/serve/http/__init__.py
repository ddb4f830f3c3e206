"""The HTTP interface: one module of routes for each subject."""
