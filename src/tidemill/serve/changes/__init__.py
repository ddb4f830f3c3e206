"""Changes of views for many subscribers: positions, a log of computed changes, and followers."""
