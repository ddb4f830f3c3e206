"""The dashboard: a page of plain ES modules and CSS that reads the HTTP interface."""
