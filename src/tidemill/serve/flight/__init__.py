"""Arrow Flight: results and changes as record batches."""
