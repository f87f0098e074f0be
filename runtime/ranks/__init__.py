"""Start ranks: launchers, and the wrapper of each rank."""
