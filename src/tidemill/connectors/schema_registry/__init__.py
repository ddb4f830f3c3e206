"""Schema registries: the schemas by which messages were written."""
