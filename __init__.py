"""jobc compiles one training job, written as Hydra overrides, into a cluster's launch files. This file imports
nothing.
"""

__version__ = "0.1.0"
