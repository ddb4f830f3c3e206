"""Routes that tell how the server stands: sources, state, plans, and the words that statements may use."""
