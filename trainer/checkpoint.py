"""What a checkpoint of this trainer contains, as bytes, and how a run continues from it.

Files  weights.pt and optimizer.pt  the state_dict of each
       rng.pt                       random states, one per rank
       state.json                   step, world size, identity of the run, version of torch
"""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from . import checkpoint_store as store
from .config import TrainConfig, identity
from .distributed import Group
from .errors import BrokenInput
from .random_state import RandomState, seed_rank


@dataclass(frozen=True)
class Start:
    """Where a run begins: steps done so far, and in words why."""

    step: int
    words: str


def save(
    root: Path,
    step: int,
    model: nn.Module,
    optimizer: Optimizer,
    config: TrainConfig,
    group: Group,
    val_loss: float | None = None,
) -> str:
    """Save after `step` finished steps, from all ranks together. Returns what happened, in words, on rank 0.

    val_loss: of these weights, when it was measured after this step; it decides which checkpoint is the best
    A disk that does not take it is reported and survived: the previous checkpoint is still there.
    """
    random_states = group.gather(RandomState.now(group.device).packed())

    def write() -> str:
        state = {
            "step": step,
            "world_size": group.world_size,
            "identity": identity(config),
            "torch": torch.__version__,
        }
        try:
            files = {
                "weights.pt": to_bytes(model.state_dict()),
                "optimizer.pt": to_bytes(optimizer.state_dict()),
                "rng.pt": to_bytes(random_states),
                "state.json": (json.dumps(state, indent=2) + "\n").encode(),
            }
            folder = store.save(root, step, files, config.checkpoint.keep, val_loss)
            return f"saved {root.name}/{folder.name}"
        except OSError as error:
            return f"warning: step {step} was not saved: {error}; the previous checkpoint is kept"

    return group.first_does(write)


def restore(root: Path, model: nn.Module, optimizer: Optimizer, config: TrainConfig, group: Group) -> Start | None:
    """Continue from the newest verified checkpoint under `root`; None when there is no checkpoint at all.

    Sets weights, optimizer and this rank's random state. With another world size random states are drawn
    anew.
    Raises BrokenInput when the run is another one (see IDENTITY) or when every checkpoint is damaged.
    """
    folder, damaged = newest_verified(root, group)
    if folder is None:
        return None
    state = json.loads(_read(folder / "state.json"))
    _refuse_another_run(folder, state["identity"], identity(config))
    model.load_state_dict(_load(folder / "weights.pt"))
    optimizer.load_state_dict(_load(folder / "optimizer.pt"))
    step = int(state["step"])
    words = f"{root.name}/{folder.name}"
    if state["world_size"] == group.world_size:
        RandomState.unpack(_load(folder / "rng.pt")[group.rank]).set(group.device)
    else:
        seed_rank(config.seed, group.rank, step)
        words += f", saved by {state['world_size']} ranks"
    return Start(step, words + "".join(f", skipped {line}" for line in damaged))


def fork(root: Path, model: nn.Module, group: Group) -> Start:
    """Step 0 of a new run with the weights of another run's newest verified checkpoint under `root`."""
    folder, _ = newest_verified(root, group)
    if folder is None:
        raise BrokenInput(f"JOBC_INIT_FROM: no checkpoint in {root}")
    try:
        model.load_state_dict(_load(folder / "weights.pt"))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:6]]
        raise BrokenInput(f"JOBC_INIT_FROM: the weights in {folder} are of another model", lines) from error
    return Start(0, f"weights of {folder}")


def newest_verified(root: Path, group: Group) -> tuple[Path | None, list[str]]:
    """Rank 0 verifies, all use its choice. Raises BrokenInput when there are some, but none is sound."""
    folder, damaged = store.newest_verified(root) if group.is_first else (None, [])
    step = group.from_first(-1 if folder is None else store.step_of(folder))
    if group.from_first(len(damaged)) and step < 0:
        raise BrokenInput(
            f"every checkpoint in {root} is damaged",
            damaged,
            hint="remove that folder to start from step 0, or restore it from a copy",
        )
    return (None if step < 0 else root / store.folder_name(step)), damaged


def to_bytes(value: Any) -> bytes:
    """`value` in torch's file format. Equal values give equal bytes."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _load(path: Path) -> Any:
    return torch.load(io.BytesIO(_read(path)), map_location="cpu", weights_only=True)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BrokenInput(
            f"cannot read {path}: {error.strerror}",
            hint="the run folder must be the same one on every node, at the same path",
        ) from error


def _refuse_another_run(folder: Path, saved: dict[str, object], wanted: dict[str, object]) -> None:
    keys = [key for key in sorted(saved.keys() | wanted.keys()) if saved.get(key) != wanted.get(key)]
    if keys:
        values = ((key, json.dumps(saved.get(key)), json.dumps(wanted.get(key))) for key in keys)
        another_model = any(key.startswith("model.") for key in keys)
        raise BrokenInput(
            f"{folder.parent.name}/{folder.name} belongs to another training",
            [f"{key}: {was} in the checkpoint, {now} now" for key, was, now in values],
            hint="start a new run" + ("" if another_model else "; --fork takes these weights"),
        )
