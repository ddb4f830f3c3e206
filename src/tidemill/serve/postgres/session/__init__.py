"""One connection: its statements, transactions, settings and portals."""
