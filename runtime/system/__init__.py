"""What the other folders need of the machine: processes, signals, GPUs, untrusted files, text for terminals."""
