"""The training loop: data, forward, backward, clip, step, schedule; hooks run between steps.

Input:  a Training, that is, model, optimizer and data, ready to run (build/build.py).
Output: an exit code, and in the run folder metrics, checkpoints and final weights (hooks.py).

Hooks run in this order: metrics, checks, validation, checkpoint, stop. All ranks make the same decisions because each
decision depends only on sums over all ranks.

A step's loss is the sum over all valid items in the global batch, divided by their number. A mean of the ranks' means
would give items different weights because ranks can have different numbers of items.
"""

import math

from ..build.build import Training
from ..build.garbage_collection import collect_garbage, stop_automatic_collection
from ..config.schema import optimizer_schedule
from ..dist.compare_ranks import compare_ranks_and_watch
from ..dist.hang_watch import HangWatchdog
from ..lifecycle.exit_rank import print_error_once
from ..lifecycle.requests import StopSignals
from ..recipe.module_state import SavedBuffers, preserve_buffers
from ..recipe.optimizer import learning_rate_at_step
from .console import format_startup_banner
from .hooks import Hooks, print_unless_empty
from .nonfinite import require_counted_items, skip_reason
from .step_sums import StepResult, StepSums, StopAndSaveRequests, loss_divisor
from .stragglers import GpuTimer


def run_training(training: Training, signals: StopSignals, watch: HangWatchdog | None = None) -> int:
    """Train, and return the exit code: DONE, or PREEMPTED after a stop from which the run will be resumed. In both
    cases, there is a checkpoint.

    watch: the watchdog that was started before the build; None = start one.
    """
    watch = watch or compare_ranks_and_watch(training.group, training.config)
    training.phases.begin_outside_steps("metrics")
    training.phases.take_times()  # discard the times recorded during the build
    if training.group.is_first:
        print(format_startup_banner(training), flush=True)
        if training.start.step >= training.total_steps:
            print(f"already at step {training.start.step} of {training.total_steps}: nothing to train", flush=True)
    hooks = Hooks(training, signals, watch)
    print_unless_empty(hooks.profiling.missing_profile_warning(training.start.step, training.total_steps))
    stop_automatic_collection()
    try:
        with watch:
            return run_remaining_steps(training, hooks, watch)
    except BaseException as error:
        print_error_once(error)  # before hooks.close(), which may wait for a slow disk
        raise
    finally:
        hooks.close()


def run_remaining_steps(training: Training, hooks: Hooks, watch: HangWatchdog) -> int:
    """Run the remaining steps, with hooks between them, and return the exit code."""
    start = training.start.step
    if hooks.is_validation_owed() and (code := hooks.validate_save_stop(start, StopAndSaveRequests())) is not None:
        return code
    for step in range(start, training.total_steps):
        done = step + 1
        requests = hooks.before_step(step)
        result = train_step(training, step, requests)
        hooks.report_metrics(done, result)
        if step == start:  # the first step may compile, so it has a longer timeout
            training.group.use_timeout(training.config.process_group.step_timeout_s)
            watch.use_timeout(training.config.process_group.step_timeout_s)
        hooks.run_checks(done, result)
        if (code := hooks.validate_save_stop(done, result.requests)) is not None:
            return code
        collect_garbage(done)
    return hooks.finish()


def train_step(training: Training, step: int, requests: StopAndSaveRequests) -> StepResult:
    """Run optimizer step `step`, counted from 0. requests: this rank's requests.

    Raises LossDiverged if loop.on_nan=stop and the loss or a gradient is NaN or Inf. A skipped step changes neither
    weights nor buffers.
    """
    config, group, parallel, loader = training.config, training.group, training.parallel, training.loader
    phases, timer, optim = training.phases, GpuTimer(group.device), optimizer_schedule(config.optim)
    may_skip = config.loop.on_nan == "skip" or config.loop.precision == "fp16"

    # data: this rank's micro-batches
    micro_batches = loader.take_step()
    sums = StepSums(training, step, micro_batches, requests)
    buffers = SavedBuffers(parallel.module, is_active=may_skip)

    for number, batch in enumerate(loader.batches_on_device(micro_batches)):
        is_last = number == len(micro_batches) - 1
        phases.enter("forward")
        with preserve_buffers(parallel.module, sums.is_padding(number)), parallel.pass_context(is_last):
            with timer:
                loss, num_items = parallel.module(batch)
            sums.add_pass(number, loss, num_items)
            phases.enter("backward")
            parallel.backward(loss * sums.loss_factor(number), is_last)  # the last pass reduces the gradients
    phases.enter("data")
    loader.prefetch_next_step()  # prefetch for the next step while the GPU computes
    training.proof.record_step(micro_batches)

    # reduce: loss, items and requests of all ranks
    phases.enter("update")
    read_totals = sums.wait_for_exchange()
    norm_on_device = parallel.gradient_norm()
    norm = None if norm_on_device is None else float(norm_on_device)  # the only device sync in a step
    totals = read_totals()
    require_counted_items(training, step, totals)

    # schedule, clip, step: update() calls optimizer.step() and zero_grad(), which depend on the kind of parallelism
    # (parallel/stepper.py, parallel/zero.py). If the loss or norm is NaN or Inf, only DeepSpeed changes anything.
    lr = learning_rate_at_step(step, training.total_steps, optim)
    correction = sums.expected_items / loss_divisor(totals.items)
    update = parallel.update(lr, optim.clip_norm, norm, correction, totals.mean_loss)
    if not math.isfinite(update.grad_norm):
        buffers.restore()
    reason = skip_reason(training, step, totals, update, sums)
    seconds = timer.total_seconds()
    return StepResult(totals.mean_loss, sums.num_samples, lr, update, seconds, reason, totals.requests)
