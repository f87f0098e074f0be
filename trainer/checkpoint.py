"""What a checkpoint of this trainer contains, as bytes, and how a run continues from it.

Files  weights.pt and optimizer.pt  the state_dict of each
       rng.pt                       random states, one per rank
       state.json                   step, world size, identity of the run, version of torch
"""

import io
import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from . import checkpoint_store as store
from .config import TrainConfig, identity
from .distributed import Group
from .durable import Content
from .errors import BrokenInput
from .leave import known_cause
from .loadable import refuse_what_cannot_be_read, why_unread
from .optimizer import NAMES, by_name
from .parallel.way import Parallel
from .random_state import RandomState, seed_rank
from .snapshot import on_cpu

Parts = Mapping[str, Any]  # what else is kept in state.json: values of JSON, each under the name of its owner
T = TypeVar("T")


@dataclass(frozen=True)
class Start:
    """Where a run begins: steps done so far, and in words why.

    parts    as they were given to the save
    damaged  checkpoints that this rank has passed over
    """

    step: int
    words: str
    parts: Parts = field(default_factory=dict)
    damaged: tuple[str, ...] = ()


def contents(
    step: int,
    parallel: Parallel,
    config: TrainConfig,
    group: Group,
    parts: Parts,
    keep: Callable[[Any], Any],
) -> Mapping[str, Content]:
    """The files of a checkpoint after `step` finished steps, on rank 0; nothing on the others. All ranks call it.

    keep: makes of tensors what is to be written; copies, when they are written while training goes on
    Raises BrokenInput for what could not be read back.
    """
    random_states = group.gather(RandomState.now(group.device).packed())
    weights, optimizer_state = parallel.weights(), {**parallel.optimizer_state(), NAMES: list(parallel.names)}
    if not group.is_first:
        return {}
    refuse_what_cannot_be_read("the model's state_dict", weights)
    refuse_what_cannot_be_read("the optimizer's state_dict", optimizer_state)
    if parallel.gathers:
        keep = on_cpu  # it is a copy already
    state = {
        "step": step,
        "world_size": group.world_size,
        "identity": identity(config),
        "torch": torch.__version__,
        "parts": dict(parts),
    }
    return {
        "weights.pt": torch_file(keep(weights)),
        "optimizer.pt": torch_file(keep(optimizer_state)),
        "rng.pt": torch_file(random_states),
        "state.json": (json.dumps(state, indent=2) + "\n").encode(),
    }


def torch_file(value: Any) -> Content:
    """Writes `value` in torch's file format. Equal values give equal bytes."""
    return lambda file: torch.save(value, file)


def restore(root: Path, parallel: Parallel, config: TrainConfig, group: Group) -> Start | None:
    """Continue from the newest verified checkpoint under `root`; None when there is no checkpoint at all.

    Sets weights, optimizer and this rank's random state. With another world size random states are drawn
    anew.
    Raises BrokenInput when the run is another one (see IDENTITY), when every checkpoint is damaged, and when one
    is of a later version of the trainer.
    """
    found = newest_verified(root, group)
    if found is None:
        return None
    state = _state_of(found)
    _refuse_another_run(found.folder, state["identity"], identity(config))
    where = f"{root.name}/{found.folder.name}"
    _set(parallel.load_weights, found.load("weights.pt"), f"{where} is of another model")
    load_optimizer = partial(_load_optimizer, parallel)
    _set(load_optimizer, found.load("optimizer.pt"), f"{where} does not fit the optimizer", OWN_OPTIMIZER)
    step = int(state["step"])
    words = where
    if found.rank:
        words += f" of rank {found.rank}"
    random_states = found.load("rng.pt")
    if state["world_size"] == group.world_size:
        RandomState.unpack(random_states[group.rank]).set(group.device)
    else:
        seed_rank(config.seed, group.rank, step)
        words += f", saved by {state['world_size']} ranks"
    words += "".join(f", skipped {line}" for line in found.damaged)
    return Start(step, words, state.get("parts", {}), found.passed_over)


def fork(root: Path, parallel: Parallel, group: Group) -> Start:
    """Step 0 of a new run with the weights of another run's newest verified checkpoint under `root`."""
    found = newest_verified(root, group)
    if found is None:
        raise BrokenInput(f"JOBC_INIT_FROM: no checkpoint in {root} of any node")
    _state_of(found)
    _set(parallel.load_weights, found.load("weights.pt"), f"JOBC_INIT_FROM: {found.folder} is of another model")
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

    @property
    def passed_over(self) -> tuple[str, ...]:
        """The names of the damaged ones, for the Saver: none of them may take the place of a sound one."""
        return tuple(line.split(":")[0] for line in self.damaged)

    def read(self, name: str) -> bytes:
        """All ranks call it, in the same order."""
        content = _one_reads(self.rank, partial(_read, self.folder / name), self.group) or b""
        self.group.phases.enter("exchange")
        content = self.group.bytes_from(self.rank, content)
        self.group.phases.enter("restore")
        return content

    def load(self, name: str) -> Any:
        """All ranks call it. Only tensors and plain values: a checkpoint can run no code."""
        try:
            return torch.load(io.BytesIO(self.read(name)), map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            why = f"holds more than tensors and is not loaded: {why_unread(error)}"
            raise BrokenInput(f"{self.folder / name} {why}") from error


def newest_verified(root: Path, group: Group) -> Found | None:
    """The newest checkpoint that any rank sees; where several see it, rank 0 or the next one verifies it for all.

    Raises BrokenInput when there are some, but none is sound, or one is of a later version of the trainer.
    """
    seen = store.newest_first(root)
    group.phases.enter("exchange")
    steps = [int(step) for step in group.gather(torch.tensor([store.step_of(seen[0]) if seen else -1]))]
    group.phases.enter("restore")
    rank = steps.index(max(steps))
    if steps[rank] < 0:
        return None
    folder, step, damaged = _one_reads(rank, partial(_verify, root), group) or (None, NONE_SOUND, [])
    group.phases.enter("exchange")
    step = group.from_rank(rank, step)
    group.phases.enter("restore")
    seen_by = f", as rank {rank} sees it" if rank else ""
    if step == NEWER_FORMAT:
        hint = "go on with the version of jobc that saved it, or start a new run"
        raise BrokenInput(f"a checkpoint in {root} is of a later version of the trainer{seen_by}", damaged, hint=hint)
    if step == NONE_SOUND:
        hint = "remove that folder to start from step 0, or restore it from a copy"
        raise BrokenInput(f"every checkpoint in {root} is damaged{seen_by}", damaged, hint=hint)
    return Found(folder or root / store.folder_name(step), rank, damaged, group)


NONE_SOUND, NEWER_FORMAT = -1, -2  # in the place of a step


def _verify(root: Path) -> tuple[Path | None, int, list[str]]:
    """The newest sound checkpoint, its step or what is in its place, and a line for each that stands against it."""
    try:
        folder, damaged = store.newest_verified(root)
    except store.NewerFormat as error:
        return None, NEWER_FORMAT, [str(error)]
    return folder, NONE_SOUND if folder is None else store.step_of(folder), damaged


def _one_reads(rank: int, read: Callable[[], T], group: Group) -> T | None:
    """What `rank` reads, there; None on the others, which wait for its disk as long as it needs."""
    group.phases.enter("read" if group.rank == rank else "exchange")
    content = group.one_does(rank, read, group.phases.go_on)
    group.phases.enter("restore")
    return content


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BrokenInput(f"cannot read {path}: {error.strerror}") from error


def _state_of(found: Found) -> dict[str, Any]:
    """The content of state.json; all ranks call it. Raises BrokenInput when a script's own save() wrote it."""
    state: dict[str, Any] = json.loads(found.read("state.json"))
    if "identity" not in state:
        why, hint = "was saved by a script, and not by the trainer", "go on with that script, or start a new run"
        raise BrokenInput(f"{found.folder} {why}", hint=hint)
    return state


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


OWN_OPTIMIZER = "its load_state_dict() has to take what its state_dict() gave; else a new run: --fork takes the weights"


def _load_optimizer(parallel: Parallel, state: Mapping[str, Any]) -> None:
    parallel.load_optimizer(by_name(state, parallel.names))


def _set(load: Callable[[Any], None], value: Any, title: str, hint: str = "start a new run") -> None:
    """Have `load` take a value of a checkpoint. Raises BrokenInput when it does not fit, in torch's words."""
    try:
        load(value)
    except (RuntimeError, ValueError, KeyError) as error:
        if known_cause(error) is not None:  # a peer that was lost while ranks shared the value out
            raise
        said = f"KeyError: {error}" if isinstance(error, KeyError) else str(error)  # of which str() is the key alone
        lines = [line.strip() for line in said.splitlines()]
        raise BrokenInput(title, lines[1:6] or lines, hint=hint) from error
