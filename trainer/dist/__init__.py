"""The process group: environment variables, rendezvous, launchers and the hang watchdog."""
