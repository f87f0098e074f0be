"""The whole compiler, end to end: compose, convert, check, lower, emit, seal."""
