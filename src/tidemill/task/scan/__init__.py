"""What a scan makes of the rows of a split: each policy of tables is a part of its own."""
