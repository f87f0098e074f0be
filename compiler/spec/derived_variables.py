"""Environment variables that users cannot set, because a launcher or jobc sets them."""

from ...trainer.dist.env import TABLE

_RESERVED = {row.name for row in TABLE} | {"OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED"}


def is_derived(name: str) -> bool:
    return name in _RESERVED or name.startswith("JOBC_")
