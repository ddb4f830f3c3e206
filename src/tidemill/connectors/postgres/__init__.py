"""PostgreSQL: the rows of a table, and its changes by logical replication."""
