"""Start ranks: launchers, and each rank's wrapper."""
