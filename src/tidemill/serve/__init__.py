"""A mill served to other processes: HTTP, server-sent events, WebSocket, Arrow Flight and PostgreSQL's protocol."""
