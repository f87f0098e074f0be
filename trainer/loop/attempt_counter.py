"""Does this run get anywhere? Starts in a row that completed no new step are counted in the run folder.

Detect crash loops: a crash at the same step would otherwise be requeued forever. Standard library only.
"""

from contextlib import suppress
from pathlib import Path

from ..checkpoint import store
from ..files.retried_reads import Unreadable
from ..lifecycle.errors import BrokenInput
from ..rt.run_folder import PROGRESS, REACHED, read_small, write_small
from .metrics import last_step


def note_start(run_dir: Path, most: int | None) -> None:
    """Record a start, on rank 0. Raises BrokenInput if the last `most` starts made no progress (a crash loop).

    A manual resume resets the count.
    """
    try:
        newest = store.newest_first(run_dir / "checkpoints")
    except Unreadable:
        return  # the ranks say so when they have met; without the steps that are there it cannot be counted
    brought = _read(run_dir / REACHED, "step")
    reached = max(
        store.step_of(newest[0]) if newest else 0,
        last_step(run_dir / "metrics" / "rank_00.jsonl"),
        brought[0] if brought else 0,
    )
    previous = _read(run_dir / PROGRESS, "step", "fruitless")
    if previous is None:
        _write(run_dir, reached, 0)
        return
    furthest = max(reached, previous[0])
    fruitless = 0 if reached > previous[0] else previous[1] + 1
    give_up = most is not None and fruitless >= most
    _write(run_dir, furthest, 0 if give_up else fruitless)
    if give_up:
        raise BrokenInput(
            f"crash loop: {fruitless} starts in a row completed no new step beyond step {furthest}",
            hint="see logs/rank_NN.log for the causes; --resume tries again, loop.max_fruitless=null removes the limit",
        )


def note_good_end(run_dir: Path) -> None:
    """Record a normal end or a requested stop, which do not count as a crash loop."""
    with suppress(OSError):
        (run_dir / PROGRESS).unlink(missing_ok=True)


def _read(path: Path, *names: str) -> list[int] | None:
    """These numbers of a small file; None when it is not there, or a power failure has left it empty."""
    content = read_small(path)
    try:
        return [int(content[1][name]) for name in names] if content else None
    except (KeyError, ValueError):
        return None


def _write(run_dir: Path, step: int, fruitless: int) -> None:
    """step: the furthest of all starts; fruitless: starts in a row before this one that did not come further"""
    with suppress(OSError):  # a folder that can only be read: the first save says so
        write_small(run_dir / PROGRESS, keys={"step": step, "fruitless": fruitless})
