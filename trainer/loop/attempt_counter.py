"""Detect crash loops: count the consecutive starts that completed no new step, in the run folder.

Without the count, a job that always crashes at the same step would be requeued forever. Standard library only.
"""

from contextlib import suppress
from pathlib import Path

from ...runtime.run_folder.run_folder import PROGRESS, REACHED, read_small_file, write_small_file
from ..checkpoint import store
from ..files import Unreadable
from ..lifecycle.errors import BrokenInput
from .metrics import last_step_in_file


def record_start_or_reject_loop(run_dir: Path, limit: int | None) -> None:
    """Record a start, on rank 0. Raises BrokenInput after `limit` starts in a row without progress (a crash loop)."""
    try:
        newest = store.checkpoints_newest_first(run_dir / "checkpoints")
    except Unreadable:
        return  # the error is reported after the rendezvous; without the newest step, there is nothing to compare
    recorded = _read_numbers(run_dir / REACHED, "step")
    reached = max(
        store.step_of_folder(newest[0]) if newest else 0,
        last_step_in_file(run_dir / "metrics" / "rank_00.jsonl"),
        recorded[0] if recorded else 0,
    )
    previous = _read_numbers(run_dir / PROGRESS, "step", "fruitless")
    if previous is None:
        _write_progress(run_dir, reached, 0)
        return
    furthest = max(reached, previous[0])
    fruitless = 0 if reached > previous[0] else previous[1] + 1
    give_up = limit is not None and fruitless >= limit
    _write_progress(run_dir, furthest, 0 if give_up else fruitless)
    if give_up:
        raise BrokenInput(
            f"crash loop: {fruitless} consecutive starts completed no step beyond step {furthest}",
            hint="see logs/rank_NN.log for the causes; --resume tries again, loop.max_fruitless=null removes the limit",
        )


def record_normal_end(run_dir: Path) -> None:
    """Record a normal end or a requested stop. Neither counts toward a crash loop."""
    with suppress(OSError):
        (run_dir / PROGRESS).unlink(missing_ok=True)


def _read_numbers(path: Path, *names: str) -> list[int] | None:
    """Return the named numbers from a small file, or None if it is missing, or empty after a power failure."""
    content = read_small_file(path)
    try:
        return [int(content[1][name]) for name in names] if content else None
    except (KeyError, ValueError):
        return None


def _write_progress(run_dir: Path, step: int, fruitless: int) -> None:
    """Write the highest step that any start has reached, and the number of consecutive starts without progress."""
    with suppress(OSError):  # the first save reports a read-only folder
        write_small_file(run_dir / PROGRESS, keys={"step": step, "fruitless": fruitless})
