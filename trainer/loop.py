"""The training from its first step to its last, or to the step after which somebody wants it to stop.

Between two steps, in this order: metrics, validation, checkpoint, stop. All ranks take the same decisions,
because they decide on numbers that were added over all ranks.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import NoReturn

from torch import Tensor

from . import checkpoint, export, roll_call
from .config import TrainConfig
from .console import banner
from .control import stop_file
from .distributed import Group
from .errors import TrainerError
from .garbage import collect_garbage, stop_automatic_collection
from .leave import tell
from .profiling import Profiling
from .progress import Progress
from .rt import exit_codes
from .saver import Saver
from .signals import StopSignals
from .skips import Skips
from .step import StepResult, Wishes, train_step
from .training import Training
from .validation import Failed, Validator
from .watch import Watch

VALIDATION = "validation"  # the part of a checkpoint that says after which step held-out data were measured last


def watch_over(group: Group, config: TrainConfig) -> Watch:
    """The ranks have met: say how they differ, and have each of them watched from now on."""
    answers, sharing = roll_call.call(group), config.parallel
    if group.is_first and (lines := roll_call.differences(answers)):
        print("\n  ".join(["warning: the ranks are not alike", *lines]), flush=True)
    if group.is_first and sharing.kind == "hsdp" and (line := roll_call.scattered(answers, sharing.shards)):
        hint = "start ranks that follow each other on one node: srun --distribution=block, mpirun --map-by slot"
        print(f"warning: hsdp: {line}: weights travel between nodes in every layer\n  {hint}", flush=True)
    names = [f"rank {rank} on {answer['host']}" for rank, answer in enumerate(answers)]
    return Watch(group.phases, group.rank, names, config.process_group.init_timeout_s, group.board)


def run(training: Training, signals: StopSignals, watch: Watch | None = None) -> int:
    """Train; returns the exit code: done, or preempted with everything saved.

    watch: which goes on from the build; None = the build is over and nobody watched it
    """
    config, group = training.config, training.group
    watch = watch or watch_over(group, config)
    training.phases.begin_part("metrics")
    training.phases.take()  # what the build took belongs to no step
    greet(training)
    progress = Progress(training, watch.names)
    watch.on_tick = progress.file.flush_if_due
    saver = Saver(training.checkpoints, config.checkpoint, group, training.start.damaged, training.phases)
    watch.at_end = partial(write_rest, progress, saver)
    validator = Validator(training)
    profiling = Profiling(config.profile, group.rank, training.run_dir)
    if line := profiling.never(training.start.step, training.total_steps):
        print(line, flush=True)
    stop_automatic_collection()
    loop = Loop(training, signals, progress, saver, validator, profiling, watch)
    try:
        with watch:
            return loop.steps()
    except BaseException as error:
        tell(error)  # before what may take as long as a disk needs
        raise
    finally:
        if line := profiling.end():
            print(line, flush=True)
        progress.close(loop.is_complete)
        saver.close()


def write_rest(progress: Progress, saver: Saver) -> None:
    """Of a rank that hangs, by another thread of it."""
    progress.file.flush()
    saver.finish()


def greet(training: Training) -> None:
    """Say what is about to run."""
    if training.group.is_first:
        print(banner(training), flush=True)
        if training.start.step >= training.total_steps:
            print(f"already at step {training.start.step} of {training.total_steps}: nothing to train", flush=True)


class Loop:
    """One attempt: its steps, and what is done between two of them.

    is_complete  the training is, with its last validation, its last checkpoint and its weights
    """

    def __init__(
        self,
        training: Training,
        signals: StopSignals,
        progress: Progress,
        saver: Saver,
        validator: Validator,
        profiling: Profiling,
        watch: Watch,
    ) -> None:
        self.training, self.signals, self.progress = training, signals, progress
        self.saver, self.validator, self.profiling, self.watch = saver, validator, profiling, watch
        self.is_saved, self.is_complete = True, False

    def steps(self) -> int:
        """From the first step, which may take longer, to the end; the exit code."""
        training, config = self.training, self.training.config
        skips = Skips(config.loop.max_skips)
        if self._owes_validation() and (code := self._after(training.start.step, Wishes())) is not None:
            return code
        for step in range(training.start.step, training.total_steps):
            done = step + 1
            wished = wishes(training, self.signals, self.saver)
            result = watched_step(training, step, wished, self.progress, self.profiling)
            if step == training.start.step:
                training.group.use_timeout(config.process_group.step_timeout_s)
                self.watch.use_timeout(config.process_group.step_timeout_s)
            if (line := skips.after(done, result.trouble)) and training.group.is_first:
                print(line, flush=True)
            self.saver.look()
            prove(training, done, done == training.total_steps)
            if (code := self._after(done, result.wishes)) is not None:
                return code
            collect_garbage(done)
        training.phases.begin_part("save")
        training.loader.close()
        weights = training.parallel.weights()
        if training.group.is_first:
            training.phases.enter("write")
            finish(training, self.progress, weights, self.is_saved)
        if not self.is_saved:
            self._fail_to_save(training.total_steps)
        self.is_complete = True
        return exit_codes.DONE

    def _after(self, done: int, asked: Wishes) -> int | None:
        """Validation, checkpoint and stop, where it is time for them; the exit code, when the run ends before its end.

        asked: by any rank, before the step that was just done
        """
        training, is_last = self.training, done == self.training.total_steps
        validation, failed, breaks_off = None, None, False
        if self._is_time_to_validate(done):
            training.phases.begin_part("validation")
            try:
                validation = self.validator.validate(lambda: wishes(training, self.signals, self.saver).stop)
                breaks_off = validation is None
            except Failed as error:
                failed = error  # told below, when these weights are saved
        if validation is not None:
            training.parts[VALIDATION] = {"step": done}
            self.progress.after_validation(done, validation)
        elif breaks_off and training.group.is_first:
            print(f"the validation after step {done} is broken off: asked to stop; --resume begins with it", flush=True)
        ends = is_last or asked.stop or breaks_off or failed is not None
        if asked.give_up and not ends:
            self._fail_to_save(done)
        if ends or asked.save or done % training.config.checkpoint.every_steps == 0:
            # who asked for a save by a file takes its removal for the answer
            self._save(done, validation.loss if validation else None, waits=ends or asked.save)
        if failed:
            if failed.error is None:
                training.group.start_sum([0.0])()  # until the rank whose error it is has gone: it says why
            raise failed.error or failed
        if breaks_off or (asked.stop and not is_last):
            if not self.is_saved:
                self._fail_to_save(done)
            return stopped(training, self.signals, done)
        return None

    def _fail_to_save(self, done: int) -> NoReturn:
        """All ranks call it. Who fails first is shown first: rank 0, which says why."""
        if not self.training.group.is_first:
            with suppress(Exception):  # of a peer that is lost: rank 0 has gone
                self.training.group.start_sum([0.0])()
        raise self.saver.failure(done)

    def _is_time_to_validate(self, done: int) -> bool:
        is_last = done == self.training.total_steps
        return self.validator.num_samples > 0 and (is_last or done % self.training.config.validation.every_steps == 0)

    def _owes_validation(self) -> bool:
        """Whether the attempt before was stopped in a validation, or it failed."""
        step, measured = self.training.start.step, self.training.start.parts.get(VALIDATION)
        return step > 0 and self._is_time_to_validate(step) and (measured is None or measured["step"] != step)

    def _save(self, done: int, val_loss: float | None, waits: bool) -> None:
        training, phases = self.training, self.training.phases
        phases.begin_part("metrics")
        self.progress.file.flush()  # a run that resumes from here finds the lines of all steps before
        phases.enter("save")  # a rank whose disk hangs in that is behind
        training.parts["data"] = training.proof.state(done)
        contents = partial(
            checkpoint.contents, done, training.parallel, training.config, training.group, training.parts
        )
        self.is_saved = self.saver.save(done, contents, val_loss, waits)
        self.progress.after_save(time.perf_counter() - phases.part_since)


def watched_step(training: Training, step: int, wished: Wishes, progress: Progress, profiling: Profiling) -> StepResult:
    """Global step `step`, from 0, with everything that is measured beside it."""
    done = step + 1
    if line := profiling.before_step(done):
        print(line, flush=True)
    training.phases.begin_step(done)
    result = train_step(training, step, wished)
    training.phases.enter("metrics")
    progress.after_step(done, result, training.phases.since - training.phases.part_since)
    if line := profiling.after_step(done):
        print(line, flush=True)
    return result


def prove(training: Training, done: int, is_last: bool) -> None:
    """At the end of an epoch and of the training: were all samples trained on once each? The line that says so."""
    line = training.proof.after_step(done)
    if line is None and is_last:
        line = training.proof.verify(done)
    for told in (line, training.proof.doubt() if is_last else ""):
        if told and training.group.is_first:
            print(told, flush=True)


def wishes(training: Training, signals: StopSignals, saver: Saver) -> Wishes:
    """What this rank has been asked for. Rank 0 alone looks for files: it is one question, asked once."""
    if not training.group.is_first:
        return Wishes(stop=signals.received is not None, save=False)
    stop = signals.received is not None or stop_file(training.run_dir).exists()
    return Wishes(stop=stop, save=saver.request.is_made(), give_up=saver.gives_up)


def stopped(training: Training, signals: StopSignals, done: int) -> int:
    """The exit code of a run that was asked to stop, after it has been saved. The same on all ranks: on nodes with run
    folders of their own the stop mark comes to one before it comes to another."""
    num_marks = training.group.start_sum([stop_file(training.run_dir).exists()])()[0]
    code = exit_codes.DONE if num_marks else exit_codes.PREEMPTED
    if training.group.is_first:
        cause = signals.received or ("request" if num_marks else "a signal to another rank")
        told = "for good" if code == exit_codes.DONE else "to be resumed"
        print(f"stopped by {cause} after step {done}/{training.total_steps}, {told}", flush=True)
    return code


def finish(training: Training, progress: Progress, weights: Mapping[str, Tensor], is_saved: bool) -> None:
    """Write the weights alone where people look for them, and say how to recognise them. weights: all of them;
    is_saved: the last checkpoint is as well, so that the training is done"""
    folder, step = training.run_dir / "final", max(training.start.step, training.total_steps)
    try:
        digest = export.write(folder, weights, training.config, training.source, step)
    except OSError as error:
        hint = "make room there; --resume goes on from the last checkpoint"
        raise TrainerError(f"cannot write {folder}: {error}", hint=hint) from error
    if training.start.step < training.total_steps:
        print(progress.step_times(), flush=True)
    said = "done" if is_saved else "trained"
    parts = [f"{said}  {step:,} steps", progress.last_score, f"final/weights.pt sha256 {digest}"]
    print("  ".join(part for part in parts if part), flush=True)
