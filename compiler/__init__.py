"""The compiler: Hydra overrides in, one directory of launch files out. It knows no backend by name."""
