"""Run the artifact's verbs on Slurm. Packed into jobctl; Python 3.8."""

from __future__ import annotations


def __getattr__(name: str) -> object:
    """Import the engine when a verb needs it. Programs on nodes import only other modules of this package."""
    if name != "ENGINE":
        raise AttributeError(name)
    from .slurm_engine import SlurmEngine

    return SlurmEngine
