OVERRIDE_OPTIONS: frozenset[str] = frozenset()
