"""Tables that others keep as files, version by version."""
