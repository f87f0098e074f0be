"""Model architectures, one file per kind; build.py selects one."""
