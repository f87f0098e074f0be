"""Limits on training and saves, and inputs that the estimates lack: JC2121 to JC2123, JC2127, JC2130, JC2132."""

import math
import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_duration
from ..figures import ANY_GPU, Figures, size_text
from ..limits import SizeFinding, make_size_finding

_AROUND_S = 120  # more than engines add to the grace period: 10 s to exit, and 60 s if Slurm signals early (JC4305)
_FAR = 3  # saves are reported if they are more frequent or rarer than the best interval by this factor


def check_training_exceeds_time(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2123: training does not finish within its time limit."""
    limit, takes_s, attempts = spec.time, figures.wall_s or figures.total_s, figures.attempts
    if not limit or not takes_s:
        return
    notice_s = figures.notice_s
    trains_s = max(limit - notice_s, 0)
    if takes_s > trains_s * attempts:
        title = f"training does not finish within time={format_duration(limit)}"
        hint = f"time={format_duration(60 * math.ceil((takes_s + notice_s) / 60))}"
        if attempts > 1 and trains_s:
            hint = f"lifecycle.max_requeues={math.ceil(takes_s / trains_s) - 1}"
        reason = f"training takes about {format_duration(round(takes_s))}"
        if notice_s:
            reason += f", each attempt is asked for a checkpoint up to {format_duration(notice_s)} before its limit"
        again = f"the job is requeued at most {attempts - 1} times" if attempts > 1 else ""
        because = f"{reason}, and {again or 'the engine does not requeue the job'}"
        yield make_size_finding("JC2123", title, because, hint, "time", takes_s / limit)


def check_save_exceeds_grace(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2121: a step and a checkpoint take longer than the grace period."""
    grace, step_s = spec.lifecycle.grace, figures.step_s or 0
    size = figures.memory.checkpoint if figures.memory else None
    if size is not None and figures.write_s is not None and (needed_s := figures.write_s + step_s) > grace:
        title = f"saving a checkpoint takes longer than the grace period of {format_duration(grace)}"
        after = f", after a step of {step_s:.3g} s" if step_s else ""
        because = f"writing {size_text(size)} takes about {figures.write_s:.0f} s{after}"
        longer, limit = 2 * math.ceil(needed_s) + 10, plan.lifecycle.time_limit_s
        hint = f"lifecycle.grace={format_duration(longer)}"
        if 0 < limit <= longer + _AROUND_S:
            hint += f" time={format_duration(60 * math.ceil((limit + longer) / 60))}"
        yield make_size_finding("JC2121", title, because, hint, "lifecycle.grace", needed_s)


def check_suboptimal_interval(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2122: checkpoints are saved far too often or too rarely.

    Source: Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006.
    """
    of_epoch = figures.schedule.steps_of_epoch
    configured = spec.checkpoint.steps_between_saves(of_epoch)
    if not figures.goodput or not figures.goodput.interval_s or not figures.step_s or not configured:
        return
    best = max(round(figures.goodput.best_interval_s / figures.step_s), 1)
    last = figures.schedule.steps or max(configured, best)  # the last step is always saved
    every, best = min(configured, last), min(best, last)
    if every > _FAR * best or best > _FAR * every:
        key = "checkpoint.every_epochs" if spec.checkpoint.every_epochs else "checkpoint.every_steps"
        title = f"{key}={spec.checkpoint.every_epochs or configured} is far from optimal"
        because = f"at this failure rate and save time, saving every {best:,} steps loses the least time (Daly 2006)"
        by = max(every / best, best / every)
        yield make_size_finding("JC2122", title, because, _best_interval_hint(spec, best, of_epoch), key, by)


def _best_interval_hint(spec: JobSpec, best: int, of_epoch: int | None) -> str:
    """Return the best interval in the unit that the job uses, or in steps if even one epoch is much longer."""
    if not spec.checkpoint.every_epochs or not of_epoch:
        return f"checkpoint.every_steps={best}"
    if of_epoch > _FAR * best:
        return f"checkpoint.every_steps={best} checkpoint.every_epochs=null"
    return f"checkpoint.every_epochs={max(round(best / of_epoch), 1)}"


def check_ignored_estimate_run(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2132: estimate.step_s overrides estimate.run."""
    run, step_s = spec.estimate.run, spec.estimate.step_s
    if run is not None and step_s is not None:
        title = f"estimate.run={run} is ignored"
        because = f"estimate.step_s={step_s:g} sets the step time and overrides it"
        hint = "estimate.run=null, or estimate.step_s=null to take the step time from the run"
        yield SizeFinding(Diagnostic("JC2132", title, because, hint, key="estimate.run", severity=Severity.NOTE), 1)


def check_missing_estimates(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2130: a user's own program, without the keys that estimates of its time or steps need."""
    steps, lacking = figures.schedule, dict[str, str]()
    if figures.step_s and steps.steps is steps.epochs is None:
        lacking["the training length"] = "loop.steps=1000" + " loop.epochs=null" * (spec.loop.epochs is not None)
    if steps.epoch_samples and steps.global_batch is None:
        lacking["the global batch"] = "batch.micro=16"
    if lacking and not plan.uses_trainer:
        title = f"jobc plan cannot determine {' and '.join(lacking)} of your program"
        because = "the defaults describe jobc's own trainer, not your program"
        hint = f"{' '.join(lacking.values())}, with your program's values"
        yield SizeFinding(Diagnostic("JC2130", title, because, hint, key="command", severity=Severity.NOTE), 1)


def check_missing_gpu_price(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    """JC2127: prices are set, but none for the job's GPUs, so the cost cannot be estimated."""
    prices, kind = spec.estimate.prices, spec.gpu_type
    if not prices or figures.gpu_hours is None or figures.cost is not None:
        return
    match = next((price for name, price in prices.items() if name.lower() == (kind or "").lower()), None)
    is_key = kind is not None and re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", kind)
    hint = f"estimate.prices.{kind if is_key else ANY_GPU}={next(iter(prices.values())) if match is None else match:g}"
    hint += ", with the price of one GPU hour" if match is None else ""
    title = f"no price for {kind}" if kind else "no price for a GPU of any type"
    because = f"estimate.prices has {', '.join(prices)}, so the cost cannot be estimated"
    yield SizeFinding(Diagnostic("JC2127", title, because, hint, key="estimate.prices", severity=Severity.NOTE), 1)
