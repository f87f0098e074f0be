"""Machine: processes, signals, GPUs, untrusted files, text for terminals. The other folders use it."""
