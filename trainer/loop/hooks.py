"""Hooks of the training loop, in the order in which they run: metrics, checks, validation, checkpoint, stop.

All ranks call each hook together. `done` is the number of completed steps.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import NoReturn

from torch import Tensor

from ...runtime import exit_codes
from .. import export
from ..build.build import Training
from ..checkpoint.background_save import BackgroundSaver
from ..checkpoint.save_and_resume import checkpoint_files
from ..dist.hang_watch import HangWatchdog
from ..lifecycle.errors import TrainerError
from ..lifecycle.requests import StopSignals, stop_file
from .nonfinite import SkipCounter
from .profiling import StepProfiler
from .progress import ProgressReporter
from .step_sums import StepResult, StopAndSaveRequests
from .validation import ValidationFailed, Validator

VALIDATION = "validation"  # the part of a checkpoint that contains the step of the last validation


class Hooks:
    """State of one attempt's hooks: metrics, validation, checkpoints, profiling, requests.

    is_complete: whether training is finished, including the last validation, the last checkpoint and the final weights.
    """

    def __init__(self, training: Training, signals: StopSignals, watch: HangWatchdog) -> None:
        config, group = training.config, training.group
        self.training, self.signals = training, signals
        self.progress = ProgressReporter(training, watch.names)
        checkpoints = training.run_dir / "checkpoints"
        self.saver = BackgroundSaver(checkpoints, config.checkpoint, group, training.start.damaged)
        self.validator = Validator(training)
        self.profiling = StepProfiler(config.profile, group.rank, training.run_dir)
        self.skips = SkipCounter(config.loop.max_skips)
        self.is_saved, self.is_complete = True, False
        watch.on_tick = self.progress.file.flush_if_due
        watch.at_end = self.flush_and_finish_save

    def collect_requests(self) -> StopAndSaveRequests:
        """Return the requests of this rank. Only rank 0 reads control files, so that each file counts once."""
        stop = self.signals.is_stop_requested()
        if not self.training.group.is_first:
            return StopAndSaveRequests(stop)
        stop = stop or stop_file(self.training.run_dir).exists()
        return StopAndSaveRequests(stop, self.saver.request.is_made(), self.saver.gives_up)

    def before_step(self, step: int) -> StopAndSaveRequests:
        """Start the clock and the profiler for global step `step`, counted from 0. Return this rank's requests."""
        requests = self.collect_requests()
        print_unless_empty(self.profiling.before_step(step + 1))
        self.training.phases.begin_step(step + 1)
        return requests

    def report_metrics(self, done: int, result: StepResult) -> None:
        """Write a step's metrics, and print a line every metrics.every_steps steps."""
        phases = self.training.phases
        phases.enter("metrics")
        self.progress.after_step(done, result, phases.since - phases.part_since)
        print_unless_empty(self.profiling.after_step(done))

    def run_checks(self, done: int, result: StepResult) -> None:
        """Count skipped updates, check the result of a background save, and check that each sample was used once."""
        training, is_last = self.training, done == self.training.total_steps
        skipped = self.skips.after_step(done, result.skip_reason)
        if training.group.is_first:
            print_unless_empty(skipped)
        self.saver.report_finished_save()
        line = training.proof.after_step(done) or (training.proof.verify_epoch(done) if is_last else "")
        if training.group.is_first:
            print_unless_empty(line)
            print_unless_empty(training.proof.undetermined_warning() if is_last else "")

    def validate_save_stop(self, done: int, requests: StopAndSaveRequests) -> int | None:
        """After `done` steps, validate and save if due. Return the exit code if the run ends before its last step.

        requests: made on any rank before the step
        A validation that a stop interrupts, or that fails, ends the run, but only after these weights have been saved.
        """
        training, is_last = self.training, done == self.training.total_steps
        result, failure, is_interrupted = None, None, False
        if self.is_validation_due(done):
            training.phases.begin_outside_steps("validation")
            try:
                result = self.validator.validate(lambda: self.collect_requests().stop)
                is_interrupted = result is None
            except ValidationFailed as error:
                failure = error
        if result is not None:
            training.parts[VALIDATION] = {"step": done}
            self.progress.after_validation(done, result)
        if is_interrupted and training.group.is_first:
            print(f"validation after step {done} was interrupted by the stop; --resume repeats it", flush=True)

        is_end = is_last or requests.stop or is_interrupted or failure is not None
        if requests.give_up and not is_end:
            self.raise_save_error(done)
        if is_end or requests.save or done % training.save_steps == 0:
            # wait for a requested save because removing control/SAVE tells the user that it is complete
            self.save_checkpoint(done, result.loss if result else None, wait=is_end or requests.save)
        if failure is not None:
            self.raise_validation_error(failure)
        if not is_interrupted and (is_last or not requests.stop):
            return None
        if not self.is_saved:
            self.raise_save_error(done)
        return self.report_stop(done)

    def report_stop(self, done: int) -> int:
        """Return the exit code of a run that has saved: DONE for control/STOP, else PREEMPTED; the same on all ranks.

        The ranks count the nodes on which control/STOP exists, because without a shared run folder it may appear on the
        nodes at different times.
        """
        training = self.training
        num_stop_files = training.group.start_sum([stop_file(training.run_dir).exists()])()[0]
        if training.group.is_first:
            cause = self.signals.received or ("request" if num_stop_files else "a signal sent to another rank")
            purpose = "for good" if num_stop_files else "resumable"
            print(f"stopped by {cause} after step {done}/{training.total_steps}, {purpose}", flush=True)
        return exit_codes.DONE if num_stop_files else exit_codes.PREEMPTED

    def finish(self) -> int:
        training = self.training
        training.phases.begin_outside_steps("save")
        training.loader.close()
        weights = training.parallel.weights()
        if training.group.is_first:
            training.phases.enter("write")
            self.write_final_weights(weights)
        if not self.is_saved:
            self.raise_save_error(training.total_steps)
        self.is_complete = True
        return exit_codes.DONE

    def write_final_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Write the whole model's weights, and print their SHA-256. Raises TrainerError if they cannot be written."""
        training, folder = self.training, self.training.run_dir / "final"
        step = max(training.start.step, training.total_steps)
        try:
            digest = export.write_export(folder, weights, training.config, training.source, step)
        except OSError as error:
            hint = "free disk space; --resume continues from the last checkpoint"
            raise TrainerError(f"cannot write {folder}: {error}", hint=hint) from error
        if training.start.step < training.total_steps:
            print(self.progress.format_step_times(), flush=True)
        verb = "done" if self.is_saved else "trained"
        parts = [f"{verb}  {step:,} steps", self.progress.last_score, f"final/weights.pt sha256 {digest}"]
        print("  ".join(part for part in parts if part), flush=True)

    def close(self) -> None:
        """Write the remaining data, after the last step or an error. Sends nothing to other ranks."""
        print_unless_empty(self.profiling.write_profile())
        self.progress.close(self.is_complete)
        self.saver.close()

    def flush_and_finish_save(self) -> None:
        """Flush metrics and finish the save. Called by the watchdog thread of a hung rank (dist/hang_watch.py)."""
        self.progress.file.flush()
        self.saver.finish_current_save()

    def is_validation_due(self, done: int) -> bool:
        is_last = done == self.training.total_steps
        return self.validator.num_samples > 0 and (is_last or done % self.training.config.validation.every_steps == 0)

    def is_validation_owed(self) -> bool:
        """Return whether the resumed checkpoint's validation was interrupted or failed."""
        step, last = self.training.start.step, self.training.start.parts.get(VALIDATION)
        return step > 0 and self.is_validation_due(step) and (last is None or last.get("step") != step)

    def save_checkpoint(self, done: int, val_loss: float | None, wait: bool) -> None:
        """Save a checkpoint, in the background unless `wait`."""
        training, phases = self.training, self.training.phases
        phases.begin_outside_steps("metrics")
        self.progress.file.flush()  # a run resumed from this checkpoint finds the metrics of all earlier steps
        phases.enter("save")  # after the flush, so that a rank that hangs in the flush is behind the others
        training.parts["data"] = training.proof.counts_to_json_object(done)
        files = partial(checkpoint_files, done, training.parallel, training.config, training.group, training.parts)
        self.is_saved = self.saver.save(done, files, val_loss, wait)
        self.progress.after_save(time.perf_counter() - phases.part_since)

    def raise_save_error(self, done: int) -> NoReturn:
        """Raise the last save's error. Other ranks wait for rank 0's exit, so that its error is reported first."""
        if not self.training.group.is_first:
            with suppress(Exception):  # the peer is lost because rank 0 has exited
                self.training.group.start_sum([0.0])()
        raise self.saver.save_error(done)

    def raise_validation_error(self, failed: ValidationFailed) -> NoReturn:
        """Raise this rank's error, or wait until the rank with an error exits, so that its error is reported first."""
        if failed.error is None:
            self.training.group.start_sum([0.0])()
        raise failed.error or failed


def print_unless_empty(line: str) -> None:
    if line:
        print(line, flush=True)
