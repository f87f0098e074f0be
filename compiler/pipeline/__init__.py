"""The compiler from end to end: compose, convert, check, lower, emit, seal."""
