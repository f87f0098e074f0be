"""Read the trainer's or a script's checkpoints: one rank finds and verifies the newest one and reads it for all ranks.

Input:  the checkpoint folder, as seen by this rank.
Output: a VerifiedCheckpoint, whose files all ranks load together.
"""

import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from ...runtime.system import untrusted_files
from ...runtime.system.frozen_dataclass import dataclass
from ...runtime.system.untrusted_files import is_nonnegative_integer, parse_json
from ..dist.process_group import RankGroup, zero_filled_file
from ..files import NOT_THERE, Content, Unreadable, read_with_retries
from ..lifecycle.errors import BrokenInput, unreadable_checkpoint_error
from . import store
from .random_state import restore_random_state
from .safe_pickle import load_without_running_code as load_safely

T = TypeVar("T")


def torch_file_writer(value: Any) -> Content:
    """Return a writer of `value` in torch's file format. Equal values produce equal bytes."""
    return lambda file: torch.save(value, file)


@dataclass(frozen=True)
class VerifiedCheckpoint:
    """A checkpoint that one rank has verified: that rank reads the files and sends their bytes to all ranks.

    On resume, each rank needs host memory for twice the largest file: for its bytes, and for the values loaded from
    them. The bytes are freed before the next file is read.
    rank:    the rank that reads the checkpoint. Other ranks may be unable to, because each node may have its own run
             folder.
    damaged: one line for each newer checkpoint that is damaged.
    """

    folder: Path
    rank: int
    damaged: list[str]
    group: RankGroup

    @property
    def damaged_checkpoint_names(self) -> tuple[str, ...]:
        """Return the names of damaged checkpoints, so that BackgroundSaver keeps valid ones instead of them."""
        return tuple(line.split(":")[0] for line in self.damaged)

    def _read_and_broadcast(self, name: str) -> io.BytesIO:
        """Read a file into memory. All ranks call this in the same order."""
        read = partial(_read_checkpoint_file, self.folder / name)
        content = _read_on_rank(self.rank, read, self.group) or io.BytesIO()
        self.group.phases.enter("exchange")
        content = self.group.broadcast_file(self.rank, content)
        self.group.phases.enter("restore")
        return content

    def load_file(self, name: str) -> Any:
        """Return the tensors and plain values in a file, without running code from it. All ranks call this."""
        return load_safely(self.folder / name, self._read_and_broadcast(name))

    def read_state(self) -> dict[str, Any]:
        """Return state.json, whose `step` and `world_size` are integers. All ranks call this. Raises BrokenInput."""
        path, hint = self.folder / "state.json", "remove that folder to resume from an older checkpoint"
        try:
            state = parse_json(path, bytes(self._read_and_broadcast(path.name).getbuffer()))
        except untrusted_files.Unreadable as error:
            raise BrokenInput(str(error), hint=hint) from error
        numbers = [state.get("step"), state.get("world_size")] if isinstance(state, dict) else [None]
        if not all(map(is_nonnegative_integer, numbers)):
            raise BrokenInput(f"{path} was not written by the trainer or a script", hint=hint)
        return dict(state)

    def set_random_state(self, saved: Any) -> None:
        """Restore this rank's random state. saved: content of rng.pt, one tensor per rank"""
        try:
            restore_random_state(saved[self.group.rank], self.group.device)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise BrokenInput(f"{self.folder}/rng.pt has no random state for rank {self.group.rank}") from error


def newest_verified(root: Path, group: RankGroup) -> VerifiedCheckpoint | None:
    """Return the newest intact checkpoint that any rank can access, or None. The lowest of these ranks verifies it.

    Raises BrokenInput if all checkpoints are damaged or if a newer one was written by a later version of the trainer.
    Raises StorageLost, on all ranks, if one rank cannot read an existing file.
    """
    folders, why = _try_read(partial(store.checkpoints_newest_first, root))
    _require_all_read(why, group)
    mine = {store.step_of_folder(folder): folder for folder in folders or ()}
    damaged: list[str] = []
    while (newest := _newest_step_and_rank(max(mine, default=-1), group)) is not None:
        step, rank = newest
        folder = mine.pop(step, root / store.step_folder_name(step))
        is_newer, problem = _read_on_rank(rank, partial(_verify_checkpoint, folder), group) or (False, "")
        group.phases.enter("exchange")
        is_newer = bool(group.broadcast_number(rank, is_newer))
        problem = group.broadcast_bytes(rank, problem.encode()).decode()
        group.phases.enter("restore")
        if not problem:
            return VerifiedCheckpoint(folder, rank, damaged, group)
        problem += f" (on rank {rank})" if rank else ""
        if is_newer:
            hint = "resume with the version of jobc that saved it, or start a new run"
            raise BrokenInput(f"{root}: a checkpoint was saved by a newer version of the trainer", [problem], hint)
        damaged.append(f"{folder.name}: {problem}")
    if damaged:
        hint = "remove that folder to start from step 0, or restore it from a backup"
        raise BrokenInput(f"every checkpoint in {root} is damaged", damaged, hint=hint)
    return None


def _newest_step_and_rank(mine: int, group: RankGroup) -> tuple[int, int] | None:
    """Return (step, rank) of the newest checkpoint that is not yet verified. mine: newest step on this rank, or -1"""
    group.phases.enter("exchange")
    steps = [int(step) for step in group.all_gather(torch.tensor([mine]))]
    group.phases.enter("restore")
    step = max(steps)
    return None if step < 0 else (step, steps.index(step))


def _verify_checkpoint(folder: Path) -> tuple[bool, str]:
    """Return whether a checkpoint has a newer format, and what is wrong with it, if anything."""
    try:
        return False, store.find_checkpoint_problem(folder) or ""
    except store.NewerFormatError as error:
        return True, str(error)


def _read_on_rank(rank: int, read: Callable[[], T], group: RankGroup) -> T | None:
    """Return what `rank` reads, or None on others, which wait. Raises StorageLost on all ranks if it cannot be read."""
    group.phases.enter("read" if group.rank == rank else "exchange")
    content, why = group.run_on_rank(rank, partial(_try_read, read), group.phases.restart_clock) or (None, "")
    group.phases.enter("restore")
    _require_all_read(why, group)
    return content


def _try_read(read: Callable[[], T]) -> tuple[T | None, str]:
    """Return the result of `read`, or the reason why it failed."""
    try:
        return read(), ""
    except Unreadable as error:
        return None, str(error)


def _require_all_read(why: str, group: RankGroup) -> None:
    """Raise StorageLost on all ranks if one could not read, so that all exit with the same code and are retried."""
    group.phases.enter("exchange")
    failed = [rank for rank, has_failed in enumerate(group.all_gather(torch.tensor([int(bool(why))]))) if has_failed]
    if failed:
        message = group.broadcast_bytes(failed[0], why.encode()).decode()
        raise unreadable_checkpoint_error(message + (f" (on rank {failed[0]})" if failed[0] else ""))
    group.phases.enter("restore")


def _read_checkpoint_file(path: Path) -> io.BytesIO:
    try:
        return read_with_retries(_read_into_memory, path)
    except NOT_THERE as error:  # the checkpoint existed a moment ago; another attempt will verify it again
        raise Unreadable(path, error) from error
    except untrusted_files.Unreadable as error:  # for example a named pipe, on which the ranks would hang
        raise Unreadable(path, OSError(error.reason)) from error


def _read_into_memory(path: Path) -> io.BytesIO:
    with store.open_own_file(path) as file:
        content = zero_filled_file(os.fstat(file.fileno()).st_size)
        if cast(io.BufferedReader, file).readinto(content.getbuffer()) != content.getbuffer().nbytes:
            raise OSError(f"{path} was truncated")
    return content
