"""The compiler turns Hydra overrides into one directory of launch files. The compiler never refers to a backend by
name.
"""
