"""A mill served to other processes: HTTP, server-sent events, WebSocket and Arrow Flight."""
