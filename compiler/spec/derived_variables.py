"""Variables of the environment that no user sets: a launcher's, and jobc's own."""

from __future__ import annotations

from ...trainer.dist.env import TABLE

_RESERVED = {row.name for row in TABLE} | {"OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED"}


def is_derived(name: str) -> bool:
    """Whether a variable is a launcher's or ours, and so never a user's to set."""
    return name in _RESERVED or name.startswith("JOBC_")
