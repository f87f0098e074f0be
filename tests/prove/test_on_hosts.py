"""A short version of each campaign on the test bed. `kill_on_slurm` is covered by `skewed_clocks`."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from jobc.prove import (
    cut_link,
    equal_ways,
    lost_node,
    many_nodes,
    ports,
    restarts,
    saved_step,
    secrets,
    skewed_clocks,
    stop_now,
    stopped,
)

TRIALS = [
    (lost_node, 0), (skewed_clocks, 1), (cut_link, 3), (saved_step, 0), (restarts, 2), (stopped, 4),
    (stop_now, 1), (secrets, 3),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.usefixtures("testbed")
@pytest.mark.parametrize(
    ("campaign", "trial"), [pytest.param(c, n, id=f"{c.__name__.split('.')[-1]}-{n}") for c, n in TRIALS]
)
def test_a_trial_holds(campaign: ModuleType, trial: int, tmp_path: Path) -> None:
    (tmp_path / "trial").mkdir()
    assert campaign.run(trial, tmp_path / "trial")


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.usefixtures("testbed")
def test_every_way_ends_with_the_same_weights(tmp_path: Path) -> None:
    (tmp_path / "trial").mkdir()
    assert equal_ways.run(0, tmp_path / "trial", nodes=2, procs=1, names=("local", "srun"))


def test_ports(tmp_path: Path) -> None:
    assert ports.run(0, tmp_path / "trial")["codes"]


@pytest.mark.parametrize("kind", ["ssh", "slurm"])
def test_many_nodes(kind: str, tmp_path: Path) -> None:
    """The campaign measures its time; here, other tests use the machine."""
    measured = many_nodes.compiled(kind, tmp_path, pairs=1, most_ratio=3)
    assert measured["bytes_per_node"] <= many_nodes.MOST_BYTES


def test_many_hosts_are_reached_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_nodes, "HOSTS", 200)
    assert many_nodes.fan_out(tmp_path)["most_at_once"] <= many_nodes.FANOUT
