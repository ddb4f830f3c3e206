"""PostgreSQL's system catalogue and information schema over the views of a snapshot."""
