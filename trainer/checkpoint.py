"""What a checkpoint of this trainer contains, as bytes, and how a run continues from it.

Files  weights.pt and optimizer.pt  the state_dict of each
       rng.pt                       random states, one per rank
       state.json                   step, world size, identity of the run, version of torch
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from . import checkpoint_store as store
from .config import TrainConfig, identity
from .distributed import Group
from .errors import BrokenInput
from .parallel.way import Parallel
from .random_state import RandomState, seed_rank

Parts = Mapping[str, Any]  # what else is kept in state.json: values of JSON, each under the name of its owner


@dataclass(frozen=True)
class Start:
    """Where a run begins: steps done so far, and in words why.

    parts    as they were given to the save
    """

    step: int
    words: str
    parts: Parts = field(default_factory=dict)


def save(
    root: Path,
    step: int,
    parallel: Parallel,
    config: TrainConfig,
    group: Group,
    val_loss: float | None = None,
    parts: Parts | None = None,
) -> str:
    """Save after `step` finished steps, from all ranks together. Returns what happened, in words, on rank 0.

    val_loss: of these weights, when it was measured after this step; it decides which checkpoint is the best
    A disk that does not take it is reported and survived: the previous checkpoint is still there.
    """
    random_states = group.gather(RandomState.now(group.device).packed())
    weights, optimizer_state = parallel.weights(), parallel.optimizer_state()

    def write() -> str:
        state = {
            "step": step,
            "world_size": group.world_size,
            "identity": identity(config),
            "torch": torch.__version__,
            "parts": dict(parts or {}),
        }
        try:
            files = {
                "weights.pt": to_bytes(weights),
                "optimizer.pt": to_bytes(optimizer_state),
                "rng.pt": to_bytes(random_states),
                "state.json": (json.dumps(state, indent=2) + "\n").encode(),
            }
            folder = store.save(root, step, files, config.checkpoint.keep, val_loss)
            return f"saved {root.name}/{folder.name}"
        except OSError as error:
            return f"warning: step {step} was not saved: {error}; the previous checkpoint is kept"

    return group.first_does(write)


def restore(root: Path, parallel: Parallel, config: TrainConfig, group: Group) -> Start | None:
    """Continue from the newest verified checkpoint under `root`; None when there is no checkpoint at all.

    Sets weights, optimizer and this rank's random state. With another world size random states are drawn
    anew.
    Raises BrokenInput when the run is another one (see IDENTITY) or when every checkpoint is damaged.
    """
    found = newest_verified(root, group)
    if found is None:
        return None
    state = json.loads(found.read("state.json"))
    _refuse_another_run(found.folder, state["identity"], identity(config))
    parallel.load_weights(found.load("weights.pt"))
    parallel.load_optimizer(found.load("optimizer.pt"))
    step = int(state["step"])
    words = f"{root.name}/{found.folder.name}"
    if found.rank:
        words += f" of rank {found.rank}"
    random_states = found.load("rng.pt")
    if state["world_size"] == group.world_size:
        RandomState.unpack(random_states[group.rank]).set(group.device)
    else:
        seed_rank(config.seed, group.rank, step)
        words += f", saved by {state['world_size']} ranks"
    words += "".join(f", skipped {line}" for line in found.damaged)
    return Start(step, words, state.get("parts", {}))


def fork(root: Path, parallel: Parallel, group: Group) -> Start:
    """Step 0 of a new run with the weights of another run's newest verified checkpoint under `root`."""
    found = newest_verified(root, group)
    if found is None:
        raise BrokenInput(f"JOBC_INIT_FROM: no checkpoint in {root} of any node")
    try:
        parallel.load_weights(found.load("weights.pt"))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:6]]
        raise BrokenInput(f"JOBC_INIT_FROM: the weights in {found.folder} are of another model", lines) from error
    return Start(0, f"weights of {found.folder}")


@dataclass(frozen=True)
class Found:
    """A checkpoint that one rank has verified: it alone reads the files, all get their bytes.

    rank     who sees it; the run folder may be one that all nodes see, or each node's own
    damaged  newer ones that are not sound, a line each; only that rank knows them
    """

    folder: Path
    rank: int
    damaged: list[str]
    group: Group

    def read(self, name: str) -> bytes:
        """All ranks call it, in the same order."""
        return self.group.bytes_from(self.rank, _read(self.folder / name) if self.group.rank == self.rank else b"")

    def load(self, name: str) -> Any:
        return torch.load(io.BytesIO(self.read(name)), map_location="cpu", weights_only=True)


def newest_verified(root: Path, group: Group) -> Found | None:
    """The newest checkpoint that any rank sees; where several see it, rank 0 or the next one verifies it for all.

    Raises BrokenInput when there are some, but none is sound.
    """
    seen = store.newest_first(root)
    steps = [int(step) for step in group.gather(torch.tensor([store.step_of(seen[0]) if seen else -1]))]
    rank = steps.index(max(steps))
    if steps[rank] < 0:
        return None
    folder, damaged = store.newest_verified(root) if group.rank == rank else (None, [])
    step = group.from_rank(rank, -1 if folder is None else store.step_of(folder))
    if step < 0:
        raise BrokenInput(
            f"every checkpoint in {root} is damaged" + (f", as rank {rank} sees it" if rank else ""),
            damaged,
            hint="remove that folder to start from step 0, or restore it from a copy",
        )
    return Found(root / store.folder_name(step), rank, damaged, group)


def to_bytes(value: Any) -> bytes:
    """`value` in torch's file format. Equal values give equal bytes."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BrokenInput(f"cannot read {path}: {error.strerror}") from error


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
