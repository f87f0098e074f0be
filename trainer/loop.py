"""The training from its first step to its last, or to the step after which somebody wants it to stop.

Between two steps, in this order: metrics, validation, checkpoint, stop. All ranks take the same decisions,
because they decide on numbers that were added over all ranks.
"""

import gc
import hashlib
import time
from collections.abc import Mapping

from torch import Tensor

from . import checkpoint, roll_call
from .checkpoint_store import replace_durably
from .console import banner
from .control import save_file, stop_file
from .errors import Diverged, TrainerError
from .profiling import Profiling
from .progress import Progress
from .rt import exit_codes
from .signals import StopSignals
from .step import StepResult, Wishes, train_step
from .training import Training
from .validation import validate
from .watch import Watch

COLLECT_EVERY_STEPS = 200  # all ranks together: a pause of one rank is a pause of all


def run(training: Training, signals: StopSignals) -> int:
    """Train; returns the exit code: done, or preempted with everything saved."""
    group = training.group
    names = greet(training)
    progress = Progress(training, names)
    timeout_s = training.config.process_group.step_timeout_s
    try:
        with Watch(training.phases, group.rank, names, timeout_s, group.board, progress.file.flush_if_due):
            return train(training, signals, progress)
    finally:
        progress.close()


def greet(training: Training) -> list[str]:
    """Say what is about to run, and what differs between the ranks; how people call each rank."""
    group = training.group
    answers = roll_call.call(group)
    if group.is_first:
        print(banner(training), flush=True)
        if lines := roll_call.differences(answers):
            print("\n  ".join(["warning: the ranks are not alike", *lines]), flush=True)
        if training.start.step >= training.total_steps:
            print(f"already at step {training.start.step} of {training.total_steps}: nothing to train", flush=True)
    return [f"rank {rank} on {one['host']}" for rank, one in enumerate(answers)]


def train(training: Training, signals: StopSignals, progress: Progress) -> int:
    """All steps; the exit code."""
    config, group, phases = training.config, training.group, training.phases
    profiling = Profiling(config.profile, group.rank, training.run_dir)
    group.use_step_timeout(config.process_group.step_timeout_s)
    stop_automatic_collection()
    num_skipped = 0  # in a row

    for step in range(training.start.step, training.total_steps):
        done = step + 1
        result = watched_step(training, step, signals, progress, profiling)
        num_skipped = num_skipped + 1 if result.trouble else 0
        if num_skipped:
            tell_skipped(training, done, result, num_skipped)

        is_last = done == training.total_steps
        validation = None
        if is_last or done % config.validation.every_steps == 0:
            phases.enter("validation")
            validation = validate(training)
            progress.after_validation(done, validation)
        if is_last or result.wishes.stop or result.wishes.save or done % config.checkpoint.every_steps == 0:
            phases.enter("save")
            progress.file.flush()  # a run that resumes from here finds the lines of all steps before
            save(training, done, validation.loss if validation else None)
            progress.after_save(time.perf_counter() - phases.since)
        if result.wishes.stop and not is_last:
            return stopped(training, signals, done)
        if done % COLLECT_EVERY_STEPS == 0:
            gc.collect(1)
    weights = training.parallel.weights()
    if group.is_first:
        finish(training, progress, weights)
    return exit_codes.DONE


def watched_step(
    training: Training, step: int, signals: StopSignals, progress: Progress, profiling: Profiling
) -> StepResult:
    """Global step `step`, from 0, with everything that is measured beside it."""
    phases = training.phases
    profiling.before_step(step + 1)
    phases.begin_step(step + 1)
    started = time.perf_counter()
    result = train_step(training, step, wishes(training, signals))
    phases.enter("metrics")
    progress.after_step(step + 1, result, time.perf_counter() - started)
    if told := profiling.after_step(step + 1):
        print(told, flush=True)
    return result


def tell_skipped(training: Training, done: int, result: StepResult, num_skipped: int) -> None:
    """The update of step `done` was left out, on all ranks. Raises Diverged when that happens too often in a row."""
    most = training.config.loop.max_skips
    if num_skipped > most:
        hint = "the newest checkpoint may be from before; a lower optim.lr or a smaller optim.clip_norm may help"
        raise Diverged(
            f"more than {most} steps in a row, up to {done}, have no finite gradient", [result.trouble], hint
        )
    if training.group.is_first:
        row = f"{num_skipped} in a row, {most} at most"
        print(f"warning: step {done} is skipped, the weights stay: {result.trouble}; {row}", flush=True)


def wishes(training: Training, signals: StopSignals) -> Wishes:
    """What this rank has been asked for. Rank 0 alone looks for files: it is one question, asked once."""
    if not training.group.is_first:
        return Wishes(stop=signals.received is not None, save=False)
    stop = signals.received is not None or stop_file(training.run_dir).exists()
    return Wishes(stop=stop, save=save_file(training.run_dir).exists())


def save(training: Training, done: int, val_loss: float | None) -> None:
    """Write the checkpoint after `done` steps; a request to save is then fulfilled.

    val_loss: measured after the same step, or None
    """
    words = checkpoint.save(training.checkpoints, done, training.parallel, training.config, training.group, val_loss)
    if training.group.is_first:
        save_file(training.run_dir).unlink(missing_ok=True)
        print(words, flush=True)


def stopped(training: Training, signals: StopSignals, done: int) -> int:
    """The exit code of a run that was asked to stop, after it has been saved. The same on all ranks: on nodes with run
    folders of their own the stop mark comes to one before it comes to another."""
    num_marks = training.group.start_sum([stop_file(training.run_dir).exists()])()[0]
    code = exit_codes.DONE if num_marks else exit_codes.PREEMPTED
    if training.group.is_first:
        cause = signals.received or "request"
        told = "for good" if code == exit_codes.DONE else "to be resumed"
        print(f"stopped by {cause} after step {done}/{training.total_steps}, {told}", flush=True)
    return code


def finish(training: Training, progress: Progress, state: Mapping[str, Tensor]) -> None:
    """Write the weights alone where people look for them, and say how to recognise them. state: all of them"""
    weights = checkpoint.to_bytes(state)
    path = training.run_dir / "final" / "weights.pt"
    try:
        replace_durably(path, weights)
    except OSError as error:
        hint = "make room there; --resume goes on from the last checkpoint"
        raise TrainerError(f"cannot write {path}: {error.strerror}", hint=hint) from error
    digest = hashlib.sha256(weights).hexdigest()
    if training.start.step < training.total_steps:
        print(progress.step_times(), flush=True)
    parts = [
        f"done  {max(training.start.step, training.total_steps):,} steps",
        progress.last_score,
        f"final/weights.pt sha256 {digest}",
    ]
    print("  ".join(part for part in parts if part), flush=True)


def stop_automatic_collection() -> None:
    """From now on collect garbage when all ranks do; what exists by now is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.disable()
