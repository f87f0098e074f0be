"""Variables of the environment that no user sets: a launcher's, and jobc's own."""

from __future__ import annotations

from ...trainer.dist.env import TABLE

_RESERVED = {row.name for row in TABLE} | {"OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED"}


def is_derived(name: str) -> bool:
    """Return whether a variable is derived by jobc or a launcher, so that users cannot set it."""
    return name in _RESERVED or name.startswith("JOBC_")
