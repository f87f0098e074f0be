"""The compiler turns Hydra overrides into one directory of launch files. It never refers to a backend by name."""
