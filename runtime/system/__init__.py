"""Machine-level code that the other folders use: processes, signals, GPUs, untrusted files, text for terminals."""
