"""Machine level: processes, signals, GPUs, untrusted files, text for terminals. The other folders use this one."""
