"""Save checkpoints in the background: the state is copied between steps, and rank 0 writes the copy during training.

At most one save is in progress: the next save waits for it, and prints a warning the first time. A failed save loses
only that checkpoint. If too many saves fail in a row, all ranks exit after the same step instead of training for a week
without a checkpoint.
"""

import time
import traceback
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ..config.checkpoint import CheckpointConfig
from ..dist.process_group import RankGroup
from ..files import Content
from ..lifecycle.errors import TrainerError
from ..lifecycle.requests import SaveRequest
from . import store
from .snapshot import Keep, Snapshot, copy_to_cpu

STALL_S = 1.0  # seconds that training may wait for the previous save without a warning


class BackgroundSaver:
    """Saves a training run's checkpoints. All ranks call save() and wait_on_all_ranks() together; rank 0 writes the
    checkpoints and counts failed saves.

    root:     checkpoint folder in the run folder.
    damaged:  checkpoints known to be damaged; the next save removes them.
    replaces: whether a step that is saved again may have a different state.
    gives_up: whether rank 0 wants all ranks to exit.
    request:  a user's request to save now; a save with wait=True fulfills it.
    """

    def __init__(
        self,
        root: Path,
        config: CheckpointConfig,
        group: RankGroup,
        damaged: Collection[str] = (),
        replaces: bool = False,
    ) -> None:
        self.gives_up, self.damaged = False, damaged
        self.request = SaveRequest(root.parent)
        self._root, self._config, self._group, self._phases = root, config, group, group.phases
        self._replaces = replaces
        self._snapshot = Snapshot()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="saver")
        self._under_way: tuple[int, Future[Path]] | None = None
        self._failures, self._why = 0, ""  # number of consecutive failures, and the reason for the last one
        self._has_warned_of_stall = False

    def save(
        self, step: int, contents: Callable[[Keep], Mapping[str, Content]], val_loss: float | None, wait: bool
    ) -> bool:
        """Save after `step` completed steps. Return False, on every rank, if the save has already failed.

        contents: function that all ranks call. On rank 0, it returns the files, with tensors converted by `keep`.
        val_loss: validation loss of these weights, if it was measured after this step. It determines which checkpoint
            is the best.
        wait: whether to wait until the checkpoint is written. If so, nothing is copied, and the return value is the
            final result.
        """
        former, waited_s = self._under_way, self._finish_last_save()
        if former is not None and waited_s > STALL_S and not wait and not self._has_warned_of_stall:
            waited = f"all ranks waited {waited_s:.1f} s for the save of step {former[0]} before saving step {step}"
            key = "every_epochs" if self._config.every_epochs else "every_steps"
            print(f"warning: {waited}: save less often (checkpoint.{key}) (this warning is printed once)", flush=True)
            self._has_warned_of_stall = True
        in_background = self._config.background and not wait
        files = contents(self._snapshot.copy_tree if in_background else copy_to_cpu)
        if self._group.is_first:
            retention = self._config.keep, val_loss, self._config.keep_every_steps, self.damaged, self._replaces
            self._under_way = step, self._thread.submit(store.save_checkpoint, self._root, step, files, *retention)
        is_saved = in_background or self.wait_on_all_ranks()
        if wait:
            self.request.remove_request()
        return is_saved

    def report_finished_save(self) -> None:
        """On rank 0, print the result of the current save if it has ended. Called between steps."""
        if self._under_way is None or not self._under_way[1].done():
            return
        (step, written), self._under_way = self._under_way, None
        try:
            print(f"saved {self._root.name}/{written.result().name}", flush=True)
            self._failures, self.damaged = 0, ()
        except Exception as error:
            self._failures += 1
            if isinstance(error, OSError):
                self._why = f"step {step} was not saved: {error}"
                print(f"warning: {self._why}; {self._describe_newest_checkpoint()}", flush=True)
                self.gives_up = self._failures >= self._config.max_failures
            else:  # the next save would fail too
                self._why = f"step {step} was not saved: {type(error).__name__}: {error}"
                traceback.print_exception(error)
                self.gives_up = True

    def save_error(self, step: int) -> TrainerError:
        """Return the error that ends the run on every rank after a checkpoint could not be saved."""
        if not self._group.is_first:
            return TrainerError(f"the state after step {step} was not saved; rank 0 printed the reason")
        times = f", {self._failures} saves in a row" if self._failures > 1 else ""
        hint = f"check the disk of {self._root}; --resume continues from the last checkpoint"
        return TrainerError(f"{self._why}{times}", hint=hint)

    def finish_current_save(self) -> None:
        """Finish the current save. Also called by the watchdog thread of a hung rank, which may recover."""
        under_way = self._under_way
        if under_way is not None and not under_way[1].done():
            print(f"waiting for the save of step {under_way[0]}", flush=True)
            under_way[1].exception()  # report_finished_save() prints it

    def close(self) -> None:
        """Finish the current save before the run ends, whatever ends it. Sends nothing to other ranks."""
        self.finish_current_save()
        self._thread.shutdown(wait=True)
        self.report_finished_save()

    @property
    def has_failed(self) -> bool:
        """Return whether the last save failed. Only valid on rank 0, after close()."""
        return self._failures > 0

    def wait_on_all_ranks(self) -> bool:
        """Wait on all ranks for the current save. Return whether the last save succeeded."""
        self._finish_last_save()
        return self._group.broadcast_number(0, self._failures) == 0

    def _finish_last_save(self) -> float:
        """Wait on all ranks for the current save. Return the seconds that rank 0 waited for its disk; 0.0 on others."""
        self._phases.enter("write" if self._group.is_first else "save")
        waited_s = self._group.run_on_rank(0, self._wait_until_written, self._phases.restart_clock)
        self._phases.enter("save")
        self.report_finished_save()
        return waited_s or 0.0

    def _wait_until_written(self) -> float:
        since = time.perf_counter()
        if self._under_way is not None:
            self._under_way[1].exception()  # report_finished_save() prints it
        return time.perf_counter() - since

    def _describe_newest_checkpoint(self) -> str:
        try:
            newest = store.checkpoints_newest_first(self._root)
        except OSError as error:
            return str(error)
        return f"{newest[0].name} is kept" if newest else "no checkpoint exists yet"
