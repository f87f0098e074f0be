"""jobc compiles one training job, written as Hydra overrides, into the launch files of a cluster. Imports nothing."""

__version__ = "0.1.0"
