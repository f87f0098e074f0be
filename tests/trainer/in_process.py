"""The trainer without its entry point, in this process with world size 1: no process group, no signal handlers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from jobc.trainer.build.build import Training, build
from jobc.trainer.config import train_json
from jobc.trainer.dist import env as environment
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.loop.loop import run_training
from jobc.trainer.loop.metrics import last_step_lines, read_metrics


class Signals:
    """The signals that a process has received: none or one."""

    def __init__(self, received: str | None = None) -> None:
        self.received = received

    def is_stop_requested(self) -> bool:
        return self.received is not None


def built(folder: Path, tree: dict[str, Any], **env: str) -> Training:
    values = environment.parse_environment({"JOBC_RUN_DIR": str(folder), **env})
    return build(train_json.parse_train_config(tree), values, RankGroup(0, 1, torch.device("cpu")))


def train(folder: Path, tree: dict[str, Any], received: str | None = None, **env: str) -> int:
    """Train, and return the exit code."""
    return run_training(built(folder, tree, **env), Signals(received))  # type: ignore[arg-type]


def lines(folder: Path, key: str) -> list[dict[str, Any]]:
    """Return the lines of rank 0's metrics that have `key`."""
    return [line for line in read_metrics(folder / "metrics" / "rank_00.jsonl") if key in line]


def loss_hex(folder: Path, rank: int = 0) -> dict[int, object]:
    """step -> loss of a rank, as hexadecimal text"""
    lines = last_step_lines(folder / "metrics" / f"rank_{rank:02d}.jsonl")
    return {step: line["loss_hex"] for step, line in sorted(lines.items())}


def weights(folder: Path) -> bytes:
    return (folder / "final" / "weights.pt").read_bytes()
