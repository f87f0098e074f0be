"""Write final/, the trained weights, and print the last console lines. Rank 0 only."""

from collections.abc import Mapping

from torch import Tensor

from .. import export
from ..build.build import Training
from ..lifecycle.errors import TrainerError
from .progress import ProgressReporter


def write_final(training: Training, progress: ProgressReporter, weights: Mapping[str, Tensor], is_saved: bool) -> None:
    """Write the whole model's weights, and print their SHA-256. is_saved: whether the last checkpoint was written.

    Raises TrainerError if they cannot be written.
    """
    folder, step = training.run_dir / "final", max(training.start.step, training.total_steps)
    try:
        digest = export.write_export(folder, weights, training.config, training.source, step)
    except OSError as error:
        hint = "free disk space; --resume continues from the last checkpoint"
        raise TrainerError(f"cannot write {folder}: {error}", hint=hint) from error
    if training.start.step < training.total_steps:
        print(progress.step_times(), flush=True)
    verb = "done" if is_saved else "trained"
    parts = [f"{verb}  {step:,} steps", progress.last_score, f"final/weights.pt sha256 {digest}"]
    print("  ".join(part for part in parts if part), flush=True)
