"""Delta tables: which files each version of one has."""
