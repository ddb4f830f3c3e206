"""Changes of views for many readers: positions, what was computed lately, and readers that follow."""
