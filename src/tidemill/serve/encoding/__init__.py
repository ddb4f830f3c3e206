"""Tables as JSON, CSV and Arrow, column by column."""
