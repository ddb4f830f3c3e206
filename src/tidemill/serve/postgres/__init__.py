"""PostgreSQL's wire protocol, version 3, for reading views with ``psql``, drivers and BI tools."""
