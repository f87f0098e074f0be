"""The compiler turns Hydra overrides into one directory of launch files. No backend's name appears in the compiler."""
