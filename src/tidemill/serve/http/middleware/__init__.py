"""What every request over HTTP passes before it reaches a route, and its answer afterwards."""
