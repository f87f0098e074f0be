"""Slurm, for the verbs of an artifact. Packed into jobctl; Python 3.8."""

from .slurm_engine import SlurmEngine

ENGINE = SlurmEngine
