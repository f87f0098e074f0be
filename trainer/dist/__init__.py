"""The process group: environment, rendezvous, launchers, and the watchdog of hung ranks."""
