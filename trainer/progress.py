"""What is measured along the way: metrics/rank_NN.jsonl for every rank, and rank 0's console."""

import time

from .console import score_text, skipped_line, step_line
from .metrics import MetricsFile
from .step import StepResult
from .training import Training
from .validation import Validation, as_score


class Progress:
    """Takes the results of steps and validations as they come; remembers only what the next line needs."""

    def __init__(self, training: Training) -> None:
        self.last_score = ""
        self._training = training
        self._file = MetricsFile(training.run_dir, training.group.rank)
        self._seconds, self._samples, self._steps = 0.0, 0, 0  # since the last line on the console
        self._skipped = 0  # steps that fp16 left out in this attempt

    def after_step(self, done: int, result: StepResult, step_s: float) -> None:
        """`done` steps are finished, the last one took step_s seconds."""
        source, is_text = self._training.source, self._training.source.score != "accuracy"
        values: dict[str, object] = {
            "loss": result.loss,
            "loss_hex": result.loss.hex(),
            "lr": result.lr,
            "grad_norm": result.update.grad_norm,
            "step_s": round(step_s, 6),
            "data_s": round(result.data_s, 6),
            "samples_per_s": round(result.num_samples / step_s, 1),
        }
        if is_text:
            values[source.score] = as_score(source.score, result.loss, 0.0)
            values["tokens_per_s"] = round(result.num_samples * source.tokens_per_sample / step_s, 1)
        if self._training.config.loop.precision == "fp16":
            values |= {"skipped": result.update.skipped, "loss_scale": result.update.loss_scale}
        self._write(done, values)
        if result.update.skipped:
            self._skipped += 1
            if self._training.group.is_first:
                total, scale = self._training.total_steps, result.update.loss_scale
                print(skipped_line(done, total, self._skipped, scale), flush=True)

        self._seconds += step_s
        self._samples += result.num_samples
        self._steps += 1
        total = self._training.total_steps
        if self._training.group.is_first and (done % self._training.config.metrics.every_steps == 0 or done == total):
            rate = self._samples * (source.tokens_per_sample if is_text else 1) / self._seconds
            unit = "tok/s" if is_text else "samples/s"
            score = score_text(source.score, as_score(source.score, result.loss, 0.0)) if is_text else ""
            eta_s = (total - done) * self._seconds / self._steps
            print(
                step_line(done, total, result.loss, score, result.lr, f"{rate:,.0f} {unit}", eta_s),
                flush=True,
            )
            self._seconds, self._samples, self._steps = 0.0, 0, 0

    def after_validation(self, done: int, result: Validation) -> None:
        """Held-out data were measured after `done` steps."""
        kind = self._training.source.score
        self._write(
            done,
            {
                "val_loss": result.loss,
                "val_loss_hex": result.loss.hex(),
                **({} if kind == "loss" else {f"val_{kind}": result.score}),
                "val_samples": result.num_samples,
                "val_s": round(result.seconds, 6),
            },
        )
        self.last_score = f"val {score_text(kind, result.score)}"
        if self._training.group.is_first:
            print(
                f"step {done}/{self._training.total_steps}  val loss {result.loss:.3f}"
                + ("" if kind == "loss" else f"  {self.last_score}"),
                flush=True,
            )

    def _write(self, done: int, values: dict[str, object]) -> None:
        training = self._training
        self._file.write(
            {
                "step": done,
                "epoch": training.order.epoch_of(done - 1),
                **values,
                "attempt": training.env.attempt or 0,
                "world_size": training.group.world_size,
                "time": round(time.time(), 3),
            }
        )
