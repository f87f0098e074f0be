"""A tiny training run, with its ranks as real processes."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jobc.tests.trainer.forked import NOT_OURS, Forked, ForkServer, fork_server  # not made relative a second time

TRAINER = ("-m", "jobc.trainer")
DIGITS: dict[str, Any] = {
    "schema": 1,
    "job": "test",
    "world_size": 1,
    "threads_per_rank": 1,
    "seed": 0,
    "model": {"kind": "mlp", "hidden": 16, "layers": 1},
    "recipe": None,
    "data": {"kind": "digits", "val_fraction": 0.2},
    "loss": {"kind": "cross_entropy"},
    "loader": {"workers": 0, "prefetch": 2},
    "batch": {"micro": 96, "accumulation": 1, "global": 96},
    "optim": {
        "kind": "adamw",
        "lr": 1e-2,
        "betas": [0.9, 0.95],
        "eps": 1e-8,
        "weight_decay": 0.1,
        "warmup_steps": 2,
        "schedule": "constant",
        "min_lr_ratio": 0.1,
        "clip_norm": 1.0,
    },
    "loop": {
        "steps": 20,
        "epochs": None,
        "precision": "fp32",
        "drop_last": False,
        "compile": "none",
        "deterministic": False,
        "activation_checkpointing": 0,
        "on_nan": "stop",
        "max_skips": 10,
        "max_fruitless": 3,
    },
    "validation": {"every_steps": 10, "max_samples": None},
    "checkpoint": {
        "every_steps": 10,
        "every_epochs": None,
        "keep": 2,
        "keep_every_steps": None,
        "background": True,
        "max_failures": 2,
    },
    # lines are flushed immediately, because tests wait for steps
    "metrics": {"every_steps": 10, "flush_s": 0.0, "max_mib": 64, "trackers": []},
    "profile": {"steps": None, "ranks": [0]},
    "parallel": {
        "kind": "ddp",
        "bucket_cap_mb": 25,
        "find_unused_parameters": False,
        "static_graph": False,
    },
    "process_group": {"init_timeout_s": 60, "step_timeout_s": 30},
}

GPT: dict[str, Any] = {
    **DIGITS,
    "model": {"kind": "gpt", "layers": 2, "heads": 2, "width": 32, "context": 16, "dropout": 0.1},
    "data": {"kind": "stdlib_bytes", "max_bytes": 200_000, "val_fraction": 0.1},
    "validation": {"every_steps": 10, "max_samples": 64},
}


def changed(tree: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return `tree` with the leaves at dotted paths replaced, and a matching batch.global."""
    tree = copy.deepcopy(tree)
    for path, value in changes.items():
        *parents, leaf = path.split(".")
        at = tree
        for key in parents:
            at = at[key]
        at[leaf] = value
    batch = tree["batch"]
    if "batch.global" not in changes:
        batch["global"] = batch["micro"] * batch["accumulation"] * tree["world_size"]
    return tree


@dataclass
class Run:
    """A run folder, and the ranks that were started in it."""

    folder: Path
    ranks: list[subprocess.Popen[bytes] | Forked] = field(default_factory=list)
    attempt: int = -1

    def start(self, tree: dict[str, Any], program: Sequence[str] = TRAINER, **env: str) -> None:
        """Start one process per rank, as a launcher would.

        The processes are forked, unless torch would read different variables at its import.
        """
        is_forked = not any(name.startswith(NOT_OURS) for name in env)
        also = ("deepspeed",) if tree["parallel"]["kind"] == "deepspeed" else ()
        self.attempt += 1
        self.folder.mkdir(exist_ok=True)
        (self.folder / "train.json").write_text(json.dumps(tree))
        world_size, port = tree["world_size"], str(free_port())
        for rank in range(world_size):
            own = {
                "RANK": rank,
                "LOCAL_RANK": rank,
                "WORLD_SIZE": world_size,
                "LOCAL_WORLD_SIZE": world_size,
                "GROUP_RANK": 0,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "JOBC_RUN_DIR": self.folder,
                "JOBC_TRAIN_JSON": self.folder / "train.json",
                "JOBC_ATTEMPT": self.attempt,
                "OMP_NUM_THREADS": 1,
            }
            said = {**clean_environment(), **{k: str(v) for k, v in own.items()}, **env}
            if is_forked:
                self.ranks.append(fork_server(*also).start(program, said, self.log(rank)))
                continue
            with self.log(rank).open("wb") as log:
                self.ranks.append(
                    subprocess.Popen([sys.executable, *program], env=said, stdout=log, stderr=subprocess.STDOUT)
                )

    def wait(self, timeout_s: float = 180) -> list[int]:
        """Wait for the ranks. Return their exit codes by rank."""
        try:
            return [rank.wait(timeout_s) for rank in self.ranks]
        except subprocess.TimeoutExpired:
            for rank in self.ranks:
                rank.send_signal(signal.SIGQUIT)  # their stacks
            time.sleep(1)
            said = "\n".join(f"rank {rank}:\n{self.output(rank)}" for rank, _ in enumerate(self.ranks))
            raise AssertionError(f"no end within {timeout_s} s\n{said}") from None
        finally:
            self.end()

    def run(self, tree: dict[str, Any], **env: str) -> list[int]:
        """Start the ranks, and wait for their exit codes."""
        self.start(tree, **env)
        return self.wait()

    def end(self) -> None:
        """Leave no process behind."""
        for rank in self.ranks:
            rank.kill()
            rank.wait()
        self.ranks = []

    def wait_for_step(self, step: int, timeout_s: float = 180) -> None:
        """Wait until rank 0 has finished `step`."""
        file, deadline = self.folder / "metrics" / "rank_00.jsonl", time.monotonic() + timeout_s
        while not (file.exists() and f'"step": {step},' in file.read_text()):
            assert time.monotonic() < deadline, self.output(0)
            assert all(rank.poll() is None for rank in self.ranks), self.output(0)
            time.sleep(0.005)

    def wait_for_words(self, words: str, timeout_s: float = 60) -> None:
        """Wait until rank 0 has printed the words."""
        deadline = time.monotonic() + timeout_s
        while words not in self.output(0):
            assert time.monotonic() < deadline, self.output(0)
            assert self.ranks[0].poll() is None, self.output(0)
            time.sleep(0.005)

    def log(self, rank: int) -> Path:
        """Return the log file of `rank` in the current attempt."""
        return self.folder.parent / f"{self.folder.name}.{self.attempt}.{rank}.log"

    def output(self, rank: int) -> str:
        """Return the output of `rank` in the last attempt."""
        return self.log(rank).read_text()


def pytest_sessionfinish() -> None:
    for server in ForkServer.started:
        server.end()


@functools.cache
def ports() -> Iterator[int]:
    """Yield ports below those that Linux uses for outgoing connections, 500 for each process of pytest-xdist."""
    first = 20_000 + 500 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return itertools.cycle(range(first, first + 500))


def free_port() -> int:
    """Return a port on which nobody listens, and which no outgoing connection takes before the ranks listen."""
    return next(port for port in ports() if not is_listened_on(port))


def is_listened_on(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def clean_environment() -> dict[str, str]:
    """Return this process's environment without the variables of the contract."""
    from jobc.trainer.dist.env import TABLE

    names = {row.name for row in TABLE}
    return {name: value for name, value in os.environ.items() if name not in names}


@pytest.fixture
def settings_of_torch() -> Iterator[None]:
    """Restore the global settings that a training in this process changes."""
    import torch  # imported here, because many tests in this folder do not need it

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def new_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Run]]:
    """Return a function that creates run folders. Every process has ended after the module."""
    runs: list[Run] = []

    def make() -> Run:
        runs.append(Run(tmp_path_factory.mktemp("run") / "run"))
        return runs[-1]

    yield make
    for run in runs:
        run.end()


@pytest.fixture(scope="session")
def digits() -> Callable[..., dict[str, Any]]:
    """Return a function that creates a train.json for the digits, with changes by dotted path."""
    return lambda changes={}: changed(DIGITS, changes)


@pytest.fixture(scope="session")
def gpt() -> Callable[..., dict[str, Any]]:
    """Return a function that creates a train.json for a GPT with 33,000 parameters, with changes by dotted path."""
    return lambda changes={}: changed(GPT, changes)
