"""The trainer without its entry point, in this process, with world size 1: no process group, no signal handlers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from jobc.trainer.build.build import Training, build
from jobc.trainer.config import train_json
from jobc.trainer.dist import env as environment
from jobc.trainer.dist.process_group import Group
from jobc.trainer.loop.loop import run
from jobc.trainer.loop.metrics import read


class Signals:
    """What a process has received: nothing, or one signal."""

    def __init__(self, received: str | None = None) -> None:
        self.received = received


def built(folder: Path, tree: dict[str, Any], **env: str) -> Training:
    values = environment.read({"JOBC_RUN_DIR": str(folder), **env})
    return build(train_json.parse(tree), values, Group(0, 1, torch.device("cpu")))


def train(folder: Path, tree: dict[str, Any], received: str | None = None, **env: str) -> int:
    """The exit code."""
    return run(built(folder, tree, **env), Signals(received))  # type: ignore[arg-type]


def lines(folder: Path, key: str) -> list[dict[str, Any]]:
    """Those of rank 0's metrics that have `key`."""
    return [line for line in read(folder / "metrics" / "rank_00.jsonl") if key in line]


def weights(folder: Path) -> bytes:
    return (folder / "final" / "weights.pt").read_bytes()
