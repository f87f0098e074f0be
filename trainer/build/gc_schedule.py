"""When Python looks for garbage: not while it imports, and in the loop on all ranks together."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_EVERY_STEPS, COLLECT_ALL_EVERY_STEPS = 200, 2000


@contextmanager
def uncollected() -> Iterator[None]:
    """Around imports: what they make stays, and to look through it again and again is a fifth of their time.

    Source: 2.5 s and 2.0 s of CPU for torch 2.13 with what its first optimizer imports, Python 3.11.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # no later look goes through it either
        gc.enable()


def stop_automatic_collection() -> None:
    """From now on collect garbage when all ranks do; what exists by now is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.disable()


def collect_garbage(done: int) -> None:
    """After `done` steps, on all ranks together: a pause of one rank is a pause of all.

    What is alive then is looked at again only by a collection of all, which takes long where data are kept as objects.
    """
    if done % COLLECT_EVERY_STEPS == 0:
        gc.collect(2 if done % COLLECT_ALL_EVERY_STEPS == 0 else 1)
