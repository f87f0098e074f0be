"""The training from its first step to its last, or to the step after which somebody wants it to stop.

Between two steps, in this order: metrics, validation, checkpoint, stop. All ranks take the same decisions,
because they decide on numbers that were added over all ranks.
"""

import contextlib
import gc
import time
from collections.abc import Mapping

from torch import Tensor

from . import export
from .console import banner
from .control import save_file, stop_file
from .errors import TrainerError
from .progress import Progress
from .rt import exit_codes
from .saver import Saver
from .signals import StopSignals
from .step import Wishes, train_step
from .training import Training
from .validation import Validator

COLLECT_EVERY_STEPS = 200  # all ranks together: a pause of one rank is a pause of all


def run(training: Training, signals: StopSignals) -> int:
    """Train; returns the exit code: done, or preempted with everything saved."""
    config, group = training.config, training.group
    if group.is_first:
        print(banner(training), flush=True)
        if training.start.step >= training.total_steps:
            print(f"already at step {training.start.step} of {training.total_steps}: nothing to train", flush=True)
    progress = Progress(training)
    saver = Saver(training.checkpoints, training.parallel, config, group, training.start)
    validator = Validator(training)
    group.use_timeout(config.process_group.step_timeout_s)
    stop_automatic_collection()
    try:
        return steps(training, signals, progress, saver, validator)
    finally:
        saver.close()


def steps(training: Training, signals: StopSignals, progress: Progress, saver: Saver, validator: Validator) -> int:
    """From the first step to the end; the exit code."""
    config = training.config
    is_saved = True
    for step in range(training.start.step, training.total_steps):
        started = time.perf_counter()
        result = train_step(training, step, wishes(training, signals, saver))
        done = step + 1
        progress.after_step(done, result, time.perf_counter() - started)
        saver.look()

        is_last = done == training.total_steps
        prove(training, done, is_last)
        ends = is_last or result.wishes.stop
        validation = None
        if validator.num_samples and (is_last or done % config.validation.every_steps == 0):
            validation = validator.validate()
            progress.after_validation(done, validation)
        if result.wishes.give_up and not ends:
            raise saver.failure(done)
        if ends or result.wishes.save or done % config.checkpoint.every_steps == 0:
            training.parts["data"] = training.proof.state(done)
            is_saved = saver.save(done, validation.loss if validation else None, training.parts, wait=ends)
            fulfilled(training)
        if result.wishes.stop and not is_last:
            if not is_saved:
                raise saver.failure(done)
            return stopped(training, signals, done)
        if done % COLLECT_EVERY_STEPS == 0:
            gc.collect(1)
    training.loader.close()
    weights = training.parallel.weights()
    if training.group.is_first:
        finish(training, progress, weights)
    if not is_saved:
        raise saver.failure(training.total_steps)
    return exit_codes.DONE


def prove(training: Training, done: int, is_last: bool) -> None:
    """At the end of an epoch and of the training: were all samples trained on once each? The line that says so."""
    line = training.proof.after_step(done)
    if line is None and is_last:
        line = training.proof.verify(done)
    if line is not None and training.group.is_first:
        print(line, flush=True)


def wishes(training: Training, signals: StopSignals, saver: Saver) -> Wishes:
    """What this rank has been asked for. Rank 0 alone looks for files: it is one question, asked once."""
    if not training.group.is_first:
        return Wishes(stop=signals.received is not None, save=False)
    stop = signals.received is not None or stop_file(training.run_dir).exists()
    return Wishes(stop=stop, save=save_file(training.run_dir).exists(), give_up=saver.gives_up)


def fulfilled(training: Training) -> None:
    """A request to save is removed once it was served, whether the disk took the checkpoint or not."""
    if training.group.is_first:
        with contextlib.suppress(OSError):  # a folder that can only be read
            save_file(training.run_dir).unlink(missing_ok=True)


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


def finish(training: Training, progress: Progress, weights: Mapping[str, Tensor]) -> None:
    """Write the weights alone where people look for them, and say how to recognise them. weights: all of them"""
    folder, step = training.run_dir / "final", max(training.start.step, training.total_steps)
    try:
        digest = export.write(folder, weights, training.config, training.source, step)
    except OSError as error:
        hint = "make room there; --resume goes on from the last checkpoint"
        raise TrainerError(f"cannot write {folder}: {error}", hint=hint) from error
    parts = [f"done  {step:,} steps", progress.last_score, f"final/weights.pt sha256 {digest}"]
    print("  ".join(part for part in parts if part), flush=True)


def stop_automatic_collection() -> None:
    """From now on collect garbage when all ranks do; what exists by now is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.disable()
