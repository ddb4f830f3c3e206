"""What a query over this protocol means, which engine answers it, and its rows."""
