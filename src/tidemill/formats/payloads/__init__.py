"""What messages of queues have in common: the format of their values, and columns for what else a message has."""
