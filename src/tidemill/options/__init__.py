"""Options of tables and sources: each is declared once, as an :class:`~tidemill.options.option.Option`."""
