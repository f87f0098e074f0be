"""Serialize the trainer's checkpoints, and resume a run from them.

Files: weights.pt and optimizer.pt  the state_dict of each
       rng.pt                       random states, one per rank
       state.json                   step, world size, identity of the run, torch version
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import torch

from ...runtime.system.frozen_dataclass import dataclass
from ..config.schema import TrainConfig
from ..config.train_json import identity_keys
from ..dist.process_group import RankGroup
from ..files import Content
from ..lifecycle.errors import BrokenInput
from ..lifecycle.exit_rank import known_cause
from ..parallel.interface import Parallel
from ..recipe.optimizer import NAMES, reorder_state
from .random_state import capture_random_state, seed_rank
from .safe_pickle import require_loadable_state
from .snapshot import Keep, copy_to_cpu
from .verified_checkpoint import VerifiedCheckpoint, newest_verified, torch_file_writer

Parts = Mapping[str, Any]  # additional JSON values in state.json, each under its owner's name


@dataclass(frozen=True)
class StartingPoint:
    """Where training starts: the number of finished steps, and a description of the checkpoint.

    parts:   the parts that were passed to the save.
    damaged: damaged checkpoints that were skipped.
    """

    step: int
    words: str
    parts: Parts = field(default_factory=dict)
    damaged: tuple[str, ...] = ()


def checkpoint_files(
    step: int, parallel: Parallel, config: TrainConfig, group: RankGroup, parts: Parts, keep: Keep
) -> Mapping[str, Content]:
    """Return a checkpoint's files on rank 0, and {} on other ranks. All ranks call this.

    Raises BrokenInput for a state that could not be loaded later.
    """
    random_states = group.all_gather(capture_random_state(group.device))
    weights, optimizer_state = parallel.weights(), {**parallel.optimizer_state(), NAMES: list(parallel.names)}
    if not group.is_first:
        return {}
    require_loadable_state("the model's state_dict", weights)
    require_loadable_state("the optimizer's state_dict", optimizer_state)
    if parallel.gathers:
        keep = copy_to_cpu  # already a copy
    state = {
        "step": step,
        "world_size": group.world_size,
        "identity": identity_keys(config),
        "torch": torch.__version__,
        "parts": dict(parts),
    }
    return {
        "weights.pt": torch_file_writer(keep(weights)),
        "optimizer.pt": torch_file_writer(keep(optimizer_state)),
        "rng.pt": torch_file_writer(random_states),
        "state.json": (json.dumps(state, indent=2) + "\n").encode(),
    }


def resume_from_newest(root: Path, parallel: Parallel, config: TrainConfig, group: RankGroup) -> StartingPoint | None:
    """Resume from the newest verified checkpoint under `root`; return None if there is no checkpoint at all.

    Sets the weights, the optimizer and this rank's random state. If the world size has changed, the ranks get new
    seeds instead.
    Raises BrokenInput if the checkpoint belongs to another run (see IDENTITY), if every checkpoint is damaged, or if
    one was written by a later version of the trainer. Raises StorageLost, on all ranks, if an existing file cannot be
    read.
    """
    newest = newest_verified(root, group)
    if newest is None:
        return None
    state = _read_trainer_state(newest)
    _require_same_run(newest.folder, state["identity"], identity_keys(config))
    name = f"{root.name}/{newest.folder.name}"
    _load_or_reject(parallel.load_weights, newest.load_file("weights.pt"), f"{name} was saved from a different model")

    def load_optimizer(saved: Mapping[str, Any]) -> None:
        parallel.load_optimizer(reorder_state(saved, parallel.names))

    hint = "load_state_dict() must accept what state_dict() returned; or start a new run from the weights with --fork"
    _load_or_reject(load_optimizer, newest.load_file("optimizer.pt"), f"{name} does not match the optimizer", hint)
    step = state["step"]
    words = f"{name} of rank {newest.rank}" if newest.rank else name
    random_states = newest.load_file("rng.pt")
    if state["world_size"] == group.world_size:
        newest.set_random_state(random_states)
    else:
        seed_rank(config.seed, group.rank, step)
        words += f", saved by {state['world_size']} ranks"
    words += "".join(f", skipped {line}" for line in newest.damaged)
    return StartingPoint(step, words, state["parts"], newest.damaged_checkpoint_names)


def load_weights_of_other_run(root: Path, parallel: Parallel, group: RankGroup) -> StartingPoint:
    """Start a new run at step 0 with the weights of another run's newest verified checkpoint under `root`."""
    newest = newest_verified(root, group)
    if newest is None:
        raise BrokenInput(f"JOBC_INIT_FROM: no node has a checkpoint in {root}")
    _read_trainer_state(newest)
    title = f"JOBC_INIT_FROM: {newest.folder} was saved from a different model"
    _load_or_reject(parallel.load_weights, newest.load_file("weights.pt"), title)
    return StartingPoint(0, f"weights of {newest.folder}")


def _read_trainer_state(checkpoint: VerifiedCheckpoint) -> dict[str, Any]:
    """Return the content of state.json. All ranks call this. Raises BrokenInput if a script's own save() wrote it."""
    state = checkpoint.read_state()
    if "identity" not in state:
        why, hint = "was saved by a script, not by the trainer", "resume with that script, or start a new run"
        raise BrokenInput(f"{checkpoint.folder} {why}", hint=hint)
    parts = state.setdefault("parts", {})
    values = (state["identity"], parts, *(parts.values() if isinstance(parts, dict) else ()))
    if not all(isinstance(value, dict) for value in values):
        raise BrokenInput(f"{checkpoint.folder}/state.json was not written by the trainer")
    return state


def _require_same_run(folder: Path, saved: dict[str, object], current: dict[str, object]) -> None:
    keys = [key for key in sorted(saved.keys() | current.keys()) if saved.get(key) != current.get(key)]
    if keys:
        another_model = any(key.startswith("model.") for key in keys)
        raise BrokenInput(
            f"{folder.parent.name}/{folder.name} belongs to a different training job",
            [
                f"{key}: {json.dumps(saved.get(key))} in the checkpoint, {json.dumps(current.get(key))} now"
                for key in keys
            ],
            hint="start a new run" + ("" if another_model else "; --fork starts it from these weights"),
        )


def _load_or_reject(load: Callable[[Any], None], value: Any, title: str, hint: str = "start a new run") -> None:
    """Call `load` with a value from a checkpoint. Raises BrokenInput with torch's message if the value does not fit."""
    try:
        load(value)
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
        if known_cause(error) is not None:  # a peer was lost meanwhile
            raise
        # str() of a KeyError is only the key
        message = f"KeyError: {error}" if isinstance(error, KeyError) else str(error)
        lines = [line.strip() for line in message.splitlines()]
        raise BrokenInput(title, lines[1:6] or lines, hint=hint) from error
