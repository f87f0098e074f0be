"""The compiler: Hydra overrides in, one directory of launch files out. It does not know backends by name."""
