"""What a server does for its clients, whatever protocol they speak, and metrics of it."""
