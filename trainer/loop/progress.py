"""Report progress: to metrics/rank_NN.jsonl on every rank, and to the console and trackers on rank 0.

Each rank writes a line per step. Every metrics.every_steps steps, the ranks exchange their timings in one small
message. Rank 0 uses the timings for the console line, the trackers and straggler reports.
"""

import resource
import time
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, cast

import torch

from ..build.build import Training
from ..config.parse import to_json_types
from ..recipe.mfu import peak_flops, percentile
from ..trackers import TrackedRun, Trackers
from .console import format_score, format_step
from .metrics import RankMetricsFile, seconds_between_writes
from .step_sums import StepResult
from .stragglers import StragglerDetector, WorkTimes
from .validation import ValidationResult, readable_score

STEPS_KEPT = 10_000  # number of recent steps from which percentiles are computed
PERCENTILES_EVERY_LINES = 10
GIB, MIB = 2**30, 2**20
SLOW_SAVE_TIMES, SLOW_SAVE_S = 3.0, 2.0  # report a save that exceeds this multiple of the median and these seconds


class ProgressReporter:
    """Receives step and validation results. Keeps only what the next line needs. names: display names of the ranks"""

    def __init__(self, training: Training, names: Sequence[str]) -> None:
        config, env, group = training.config.metrics, training.env, training.group
        self.last_score = ""
        self._training, self._every_steps = training, config.every_steps
        flush_s = seconds_between_writes(config.flush_s, env.local_world_size)
        self.file = RankMetricsFile(training.run_dir, group.rank, flush_s, config.max_mib * MIB)
        self._stragglers, self._names = StragglerDetector(names), names
        run_id, tree = env.run_id or training.run_dir.name, cast(dict[str, Any], to_json_types(training.config))
        run = TrackedRun(run_id, training.config.job, training.run_dir, training.start.step, tree)
        self._trackers = Trackers(config.trackers if group.is_first else (), run)
        self._step_times: deque[float] = deque(maxlen=STEPS_KEPT)
        self._save_times: deque[float] = deque(maxlen=20)
        self._lines = self._done = 0
        self._skipped = 0  # steps skipped by fp16 in this attempt
        self._seconds, self._samples, self._steps = 0.0, 0, 0  # since the last console line
        self._data_s, self._forward_s = 0.0, 0.0
        is_gpu = group.device.type == "cuda"
        self._peak = peak_flops(torch.cuda.get_device_name(group.device)) if is_gpu else None

    def after_step(self, done: int, result: StepResult, step_s: float) -> None:
        """Record a step. done: number of finished steps, including this one; step_s: duration of the step in seconds"""
        source = self._training.source
        spent = self._training.phases.take_times()
        rate = result.num_samples / step_s
        values: dict[str, object] = {
            "loss": result.loss,
            "loss_hex": result.loss.hex(),
            "lr": result.lr,
            "grad_norm": result.update.grad_norm,
            "step_s": round(step_s, 6),
            **{f"{phase}_s": round(spent.get(phase, 0.0), 6) for phase in ("data", "forward", "backward")},
            "samples_per_s": round(rate, 1),
            "mfu": self._compute_mfu(rate),
        }
        if self._training.config.loop.precision == "fp16":
            values |= {"skipped": result.update.skipped, "loss_scale": result.update.loss_scale}
        if result.skip_reason:
            values["skipped"] = result.skip_reason
        if source.score.startswith("bits_per_"):
            values[source.score] = readable_score(source.score, result.loss, 0.0)
        if source.tokens_per_sample > 1:
            values["tokens_per_s"] = round(rate * source.tokens_per_sample, 1)
        self._done = done
        self._step_times.append(step_s)
        self._seconds += step_s
        self._samples += result.num_samples
        self._steps += 1
        self._data_s += spent.get("data", 0.0)
        self._forward_s += spent.get("forward", 0.0) if result.forward_s is None else result.forward_s
        total = self._training.total_steps
        if result.update.skipped:
            self._skipped += 1
            if self._training.group.is_first:
                reason = f"fp16 overflowed, loss scale now {result.update.loss_scale:,.0f}"
                print(f"step {done}/{total}  skipped ({self._skipped} so far): {reason}", flush=True)
        if done % self._every_steps and done < total:
            self._write_metrics(done, values)
        else:
            mem_gib = round(peak_memory_bytes(self._training.group.device) / GIB, 3)
            self._write_metrics(done, {**values, "mem_gib": mem_gib})
            self._after_interval(done, result, mem_gib)

    def _after_interval(self, done: int, result: StepResult, mem_gib: float) -> None:
        """Exchange the timings since the last line between the ranks. Rank 0 prints and logs them."""
        timings = [self._data_s, self._forward_s, self._seconds, mem_gib]
        rows = self._training.group.all_gather(torch.tensor(timings, dtype=torch.float64))
        if self._training.group.is_first:
            ranks = [row.tolist() for row in rows]
            self._print_and_track(done, result, ranks)
            self._lines += 1
            if self._lines % PERCENTILES_EVERY_LINES == 0:
                print(self.format_step_times(), flush=True)
            if line := self._stragglers.describe_straggler(self._steps, [WorkTimes(*row[:3]) for row in ranks]):
                print(line, flush=True)
        self._seconds, self._samples, self._steps = 0.0, 0, 0
        self._data_s, self._forward_s = 0.0, 0.0

    def _print_and_track(self, done: int, result: StepResult, ranks: Sequence[Sequence[float]]) -> None:
        training, source = self._training, self._training.source
        rate, step_s = self._samples / self._seconds, self._seconds / self._steps
        data = [row[0] / row[2] for row in ranks]  # relative to each rank's own time: steps do not start together
        memory_gib = max(row[3] for row in ranks)
        numbers = {
            "train/loss": result.loss,
            "train/grad_norm": result.update.grad_norm,
            "train/lr": result.lr,
            "speed/step_s": step_s,
            "speed/samples_per_s": rate,
            "speed/data_share_max": max(data),
            "memory/peak_gib_max": memory_gib,
        }
        details = f"{rate:,.0f} samples/s"
        if source.tokens_per_sample > 1:
            numbers["speed/tokens_per_s"] = rate * source.tokens_per_sample
            details = f"{numbers['speed/tokens_per_s']:,.0f} tok/s"
        if (mfu := self._compute_mfu(rate)) is not None:
            numbers["speed/mfu"] = mfu
            details += f"  mfu {100 * mfu:.1f} %"
        details += f"  data {100 * fmean(data):.1f} %"
        if len(data) > 1:
            details += f" (max {100 * max(data):.1f} %)"
        details += f"  mem {memory_gib:.2f} GiB"
        score = ""
        if source.score.startswith("bits_per_"):
            score = format_score(source.score, readable_score(source.score, result.loss, 0.0))
        eta_s = (training.total_steps - done) * step_s
        print(format_step(done, training.total_steps, result.loss, score, result.lr, details, eta_s), flush=True)
        self._trackers.log(done, numbers)

    def format_step_times(self) -> str:
        """Format percentiles: step times: p50 0.083 s, p95 0.090 s, p99 0.121 s, over 300 steps"""
        parts = [f"p{percent} {step_s:.3f} s" for percent, step_s in self._step_time_percentiles().items()]
        return f"step times: {', '.join(parts)}, over {len(self._step_times):,} steps"

    def _step_time_percentiles(self) -> dict[int, float]:
        values = sorted(self._step_times)
        return {percent: percentile(values, percent) for percent in (50, 95, 99)}

    def after_validation(self, done: int, result: ValidationResult) -> None:
        """Record a validation after `done` steps."""
        kind = self._training.source.score
        values = {
            "val_loss": result.loss,
            "val_loss_hex": result.loss.hex(),
            **({} if kind == "loss" else {f"val_{kind}": result.score}),
            "val_samples": result.num_samples,
            "val_s": round(result.seconds, 6),
        }
        self._write_metrics(done, values)
        self.last_score = f"val {format_score(kind, result.score)}"
        if self._training.group.is_first:
            self._trackers.log(done, {"val/loss": result.loss, f"val/{kind}": result.score})
            score = "" if kind == "loss" else f"  {self.last_score}"
            print(f"step {done}/{self._training.total_steps}  val loss {result.loss:.3f}{score}", flush=True)

    def after_save(self, seconds: float) -> None:
        """Record a save during which all ranks waited `seconds` for rank 0. Report it if it was unusually slow."""
        median_s = median(self._save_times) if len(self._save_times) >= 3 else seconds
        if self._training.group.is_first and seconds > SLOW_SAVE_TIMES * median_s and seconds > SLOW_SAVE_S:
            print(f"straggler: {self._names[0]}: save takes {seconds:.1f} s, median {median_s:.1f} s", flush=True)
        self._save_times.append(seconds)

    def close(self, is_complete: bool) -> None:
        """Write the remaining data. is_complete: whether training is finished, not just this attempt"""
        if self._step_times:
            times = {
                f"step_s_p{percent}": round(step_s, 6) for percent, step_s in self._step_time_percentiles().items()
            }
            self._write_metrics(self._done, {"steps": len(self._step_times), **times})
        self.file.flush()
        self._trackers.close(is_complete)

    def _compute_mfu(self, samples_per_s: float) -> float | None:
        """Return the MFU over all GPUs; None on CPUs, or for an unknown GPU or model."""
        flops = self._training.flops_per_sample
        if self._peak is None or flops is None:
            return None
        return round(samples_per_s * flops / (self._peak * self._training.group.world_size), 4)

    def _write_metrics(self, done: int, values: Mapping[str, object]) -> None:
        training = self._training
        about = {
            "attempt": training.env.attempt or 0,
            "world_size": training.group.world_size,
            "time": round(time.time(), 3),
        }
        self.file.write({"step": done, "epoch": training.order.epoch_of(done - 1), **values, **about})


def peak_memory_bytes(device: torch.device) -> int:
    """Return the peak memory: on a GPU, the memory that torch allocated; on a CPU, the resident memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
