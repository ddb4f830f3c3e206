"""What operators share: batches of changes, reading what is kept, and rows that fail."""
