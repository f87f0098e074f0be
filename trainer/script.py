"""API for your own script, with or without jobc: rank and device, coordinated stop, checkpoints, metrics, exit codes.

    from jobc_trainer import script            # `jobc.trainer` where jobc is installed

    rt = script.init()                         # rendezvous, with any launcher
    state = rt.load()                          # from the newest valid checkpoint, or None if there is none
    for step in range(rt.step, 1000):
        ...
        rt.log(step + 1, loss=loss.item())
        stop = rt.preempted()                  # the same result on all ranks
        if stop or rt.save_asked or (step + 1) % 100 == 0:
            rt.save(step + 1, {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, wait=stop)
        if stop:
            rt.leave()                         # 75, resumable; 0 after jobctl stop
    rt.finish()

See docs/your-script.md. A script can also run without this API, but then lacks these features of the bundled trainer.
"""

import atexit
import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import torch

from ..runtime import exit_codes
from ..runtime.system.untrusted_files import is_nonnegative_integer
from .checkpoint.background_save import BackgroundSaver
from .checkpoint.random_state import capture_random_state
from .checkpoint.safe_pickle import require_loadable_state
from .checkpoint.snapshot import Keep
from .checkpoint.store import checkpoints_newest_first, step_of_folder
from .checkpoint.verified_checkpoint import newest_verified, torch_file_writer
from .config.checkpoint import CheckpointConfig
from .dist import env as environment
from .dist.process_group import RankGroup, join_process_group
from .dist.process_group_end import keep_groups_alive, wait_for_gloo_threads
from .files import Content
from .lifecycle.errors import BrokenInput, PeerLost
from .lifecycle.exit_rank import exit_with_error, exit_without_teardown, known_cause, print_error_once
from .lifecycle.requests import StopSignals, stop_file
from .loop.metrics import RankMetricsFile, seconds_between_writes

STATE, RANDOM, ABOUT = "state.pt", "rng.pt", "state.json"  # a checkpoint's files
FLUSH_S, FILE_BYTES = 1.0, 256 * 2**20  # for metrics: the defaults of metrics.flush_s and metrics.max_mib
PEER_ENDS_S = 5.0  # time that a peer may take from closing its connections to the end of its process
NEVER = sys.maxsize  # the script decides when to save, and whether a failed save ends the run


def init(init_timeout_s: int = 300, step_timeout_s: int = 600, keep: int = 2, folder: str = "run") -> "Runtime":
    """Run the rendezvous. After this call, a stop signal only sets a flag (see preempted()), and an uncaught error
    determines the exit code.

    init_timeout_s: timeout of the rendezvous.
    step_timeout_s: timeout of one message between ranks after that.
    keep:           number of newest checkpoints to keep, >= 1; the one with the lowest validation loss is kept too.
    folder:         run folder, used if JOBC_RUN_DIR is not set.
    Raises BrokenInput for keep < 1 or an invalid environment, RendezvousFailed if the rendezvous fails, and
    StoppedBeforeTraining after a stop signal.
    """
    signals = StopSignals()
    sys.excepthook = _end_this_rank
    if keep < 1:
        raise BrokenInput(f"init(): keep={keep} would remove every checkpoint immediately", hint="keep=2")
    env = environment.parse_environment(os.environ)
    joined = join_process_group(env, init_timeout_s, signals.is_stop_requested, even_alone=True)
    runtime = Runtime(env, signals, joined, env.run_dir or Path(folder), keep)
    runtime.group.use_timeout(step_timeout_s)

    def end_this_rank(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        print_error_once(error.with_traceback(trace))  # first, because the disk may be slow
        runtime._finish_local_writes()
        if isinstance(known_cause(error), PeerLost):
            _wait_for_launcher(signals)
        _end_this_rank(kind, error, trace)

    sys.excepthook = end_this_rank  # replaces the hook of init_process_group (torch 2.13), which delays stderr
    exit_python = sys.exit

    def record_and_exit(status: Any = None, /) -> NoReturn:
        runtime._exit_status = status  # because atexit functions do not receive it
        exit_python(status)

    setattr(sys, "exit", record_and_exit)  # noqa: B010 (mypy: a function cannot be assigned to)
    atexit.register(runtime._at_exit)  # for a script that ends without finish()
    return runtime


def _wait_for_launcher(signals: StopSignals) -> None:
    """Wait up to PEER_ENDS_S for the launcher to stop this rank, which it does when the lost peer has exited.

    A peer that calls sys.exit() closes its connections a second before its process exits. If this rank exited
    right away, the launcher would report it as the first failure and kill the peer.
    """
    deadline = time.monotonic() + PEER_ENDS_S
    while not signals.is_stop_requested() and time.monotonic() < deadline:
        time.sleep(0.02)


def _end_this_rank(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Exit with 65, 69, 71 or 75 if the cause is known, else with 1 and a traceback. Skip teardown: it could hang."""
    exit_with_error(error.with_traceback(trace))


class Runtime:
    """One rank's runtime. A process group exists even with a single rank.

    rank, local_rank, world_size, device, is_first (rank 0), run_dir, data_dir (None = not set)
    step:       number of finished steps; load() sets it.
    save_asked: whether control/SAVE existed in the run folder at the last preempted(); the same on all ranks.
    load, save, preempted, leave and finish are collectives: all ranks must call them in the same order.
    """

    def __init__(
        self,
        env: environment.RankEnvironment,
        signals: StopSignals,
        joined: AbstractContextManager[RankGroup],
        run_dir: Path,
        keep: int,
    ) -> None:
        self._env, self._signals, self._joined = env, signals, joined
        self.group = joined.__enter__()
        self.rank, self.local_rank, self.world_size = env.rank, env.local_rank, env.world_size
        self.device, self.is_first = self.group.device, self.group.is_first
        self.run_dir, self.data_dir = run_dir, env.data_dir
        self.step = 0
        self.save_asked = self._stop = False
        self._exit_status: Any = None  # the argument passed to sys.exit()
        self._is_checked = False  # whether leave() or finish() has checked the last save
        self._is_over = False  # whether finish() was called
        self._newest: int | None = None  # step of the loaded checkpoint or of the last save
        saves = CheckpointConfig(NEVER, None, keep, keep_every_steps=None, background=True, max_failures=NEVER)
        self._checkpoints_folder = run_dir / "checkpoints"
        self._saver = BackgroundSaver(self._checkpoints_folder, saves, self.group, replaces=True)
        flush_s = seconds_between_writes(FLUSH_S, env.local_world_size)
        self._metrics = RankMetricsFile(run_dir, self.rank, flush_s, FILE_BYTES)

    def preempted(self) -> bool:
        """Return whether any rank was asked to stop (signal, `jobctl stop`). Collective: call it once per step."""
        self._reject_after_end("preempted()")
        self._saver.report_finished_save()
        self._metrics.flush_if_due()
        if not self._stop:
            stop = self._signals.is_stop_requested() or (self.is_first and stop_file(self.run_dir).exists())
            save = self.is_first and self._saver.request.is_made()
            stops, saves = self.group.start_sum([stop, save])()
            self._stop, self.save_asked = stops > 0, saves > 0
        return self._stop

    def save(self, step: int, state: Mapping[str, Any], val_loss: float | None = None, wait: bool = True) -> bool:
        """Write a checkpoint after `step` steps. It contains rank 0's `state` and the random states of all ranks.

        state: tensors, numbers, strings, and lists and dictionaries of these, such as a state_dict.
        wait:  whether to wait until the checkpoint is written. If false, tensors are copied, and rank 0 writes the copy
               in the background. The next save and every exit except a kill wait for that write. A save requested by
               control/SAVE always waits.
        Returns whether the checkpoint was written. A failed write prints a warning and keeps the earlier checkpoints.
        If the last save before leave() or finish() fails, these exit with 1. Saving a step again replaces its
        checkpoint.
        Raises BrokenInput for a step that is not an integer >= 0 or is lower than that of the newest checkpoint, and
        for a state that cannot be loaded again. Also raises it if earlier checkpoints exist and load() was not called,
        because they may have higher steps, and the new checkpoint would then be removed or never loaded.
        """
        self._reject_after_end("save()")
        if not is_nonnegative_integer(step):
            hint = "use save(step + 1, …), an integer >= 0"
            raise BrokenInput(f"save(): {step!r:.60} is not a step number", hint=hint)
        self._reject_older_step(step)
        self._metrics.flush()  # a run resumed from this checkpoint finds the metrics of all earlier steps
        random_states = self.group.all_gather(capture_random_state(self.device))
        about = {"step": step, "world_size": self.world_size, "torch": torch.__version__}

        def contents(keep: Keep) -> Mapping[str, Content]:
            if not self.is_first:
                return {}
            require_loadable_state("save()", dict(state))
            snapshot = keep(dict(state))
            return {
                STATE: torch_file_writer(snapshot),
                RANDOM: torch_file_writer(random_states),
                ABOUT: json.dumps(about).encode(),
            }

        measured = None if val_loss is None else float(val_loss)
        is_saved = self._saver.save(step, contents, measured, wait or self.save_asked)
        self.save_asked = False
        return is_saved

    def _reject_older_step(self, step: int) -> None:
        if self._newest is None:
            folders = checkpoints_newest_first(self._checkpoints_folder) if self.is_first else []
            self._newest = self.group.broadcast_number(0, step_of_folder(folders[0]) if folders else -1)
            if self._newest >= 0:
                reason = (
                    f"{self._checkpoints_folder} contains step {self._newest} from an earlier start; it was not loaded"
                )
                raise BrokenInput(reason, hint="call load() before the first save(), or begin with an empty run folder")
        if step < self._newest:
            raise BrokenInput(f"save({step}) after step {self._newest}: the highest step counts as the newest")
        self._newest = step

    def load(self) -> dict[str, Any] | None:
        """Return the state passed to save() from the newest valid checkpoint, on the CPU, or None if there is none.

        Sets `step`, and restores the random states if the number of ranks is unchanged. A forked run (--fork) loads its
        source run's state and starts at step 0.
        Raises BrokenInput if all checkpoints are damaged, and TrainerError if a checkpoint cannot be read (I/O error).
        """
        self._reject_after_end("load()")
        newest = newest_verified(self._checkpoints_folder, self.group)
        forked = newest is None
        self._newest = -1 if newest is None else step_of_folder(newest.folder)
        if newest is None and self._env.init_from is not None:
            newest = newest_verified(self._env.init_from / "checkpoints", self.group)
        if newest is None:
            return None
        about = newest.read_state()
        if "identity" in about:
            raise BrokenInput(f"{newest.folder} was saved by the trainer, not by a script", hint="start a new run")
        state, random_states = newest.load_file(STATE), newest.load_file(RANDOM)
        if not isinstance(state, dict):
            raise BrokenInput(f"{newest.folder / STATE} was not written by save()")
        if not forked:
            self._saver.damaged = newest.damaged_checkpoint_names
            self.step = about["step"]
            if about["world_size"] == self.world_size:
                newest.set_random_state(random_states)
        if self.is_first:
            skipped = "".join(f", skipped {line}" for line in newest.damaged)
            print(f"starts at step {self.step}, from {newest.folder}{skipped}", flush=True)
        return dict(state)

    def log(self, step: int, **values: float) -> None:
        """Log values to metrics/rank_NN.jsonl, which jobctl status and jobc watch read; rank 0 also prints them.

        Lines are buffered. They are written at most twice a second per node, before every checkpoint, and at every exit
        except a kill. A failed write prints a warning and loses only these lines.
        Raises BrokenInput for the reserved names attempt, world_size and time.
        """
        about = {"attempt": self._env.attempt or 0, "world_size": self.world_size, "time": round(time.time(), 3)}
        if reserved := sorted(about.keys() & values.keys()):
            raise BrokenInput(f"log(): {reserved[0]} is reserved", hint=f"log(step, my_{reserved[0]}=…)")
        numbers = {name: float(value) for name, value in values.items()}
        self._metrics.write({"step": step, **numbers, **about})
        if self.is_first:
            print("  ".join([f"step {step}", *(f"{name} {value:.6g}" for name, value in numbers.items())]), flush=True)

    def leave(self) -> NoReturn:
        """Exit early, after save(). The exit code is 75, or 0 after jobctl stop, or 1 if the save failed."""
        self._reject_after_end("leave()")
        self._finish_all_writes()
        for_good = self.group.start_sum([stop_file(self.run_dir).exists()])()[0] > 0
        exit_without_teardown(exit_codes.DONE if for_good else exit_codes.PREEMPTED)

    def finish(self) -> None:
        """Wait for the last save and destroy the process group. A second call does nothing.

        Raises TrainerError (exit code 1) if the last save failed.
        """
        if self._is_over:
            return
        self._finish_all_writes()
        self._is_over = True
        self._joined.__exit__(None, None, None)

    def _reject_after_end(self, call: str) -> None:
        if self._is_over:
            raise BrokenInput(f"{call} after finish(): the process group is closed", hint="call finish() last")

    def _finish_all_writes(self) -> None:
        """Wait on all ranks for rank 0's writes, because a launcher may kill rank 0 once another rank has exited."""
        is_saved, self._is_checked = self._saver.wait_on_all_ranks(), True
        self._finish_local_writes()
        if not is_saved:
            raise self._saver.save_error(self._newest or 0)

    def _finish_local_writes(self) -> None:
        self._metrics.flush()
        self._saver.close()

    def _at_exit(self) -> None:
        """Clean up. Exit code 0 becomes 1 if the last save failed and neither leave() nor finish() has checked it."""
        self._finish_local_writes()
        if self._saver.has_failed and not self._is_checked and self._exit_status in (None, 0):
            exit_with_error(self._saver.save_error(self._newest or 0))
        keep_groups_alive()  # for a script that did not call finish()
        wait_for_gloo_threads()
