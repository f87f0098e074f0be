"""The keys before, per_node, then and after on Slurm: with one task of srun per node, or per rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.tests.backends.jobs import SPAWN, SRUN, make, read
from jobc.tests.testbed import Cluster

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("way", [SPAWN, SRUN])
def test_the_ranks_start_after_the_steps(cluster: Cluster, tmp_path: Path, way: str) -> None:
    said = tmp_path / "said"
    program = ("bash", "-c", 'echo "rank $0" >>"$1"', "${jobc:node_rank}", str(said))
    steps = [
        f"before=echo before >>{said}",
        f"per_node=sleep $((3 * JOBC_NODE_RANK))\necho staged >>{said}",
        f"after=echo after $JOBC_EXIT_CODE >>{said}",
    ]
    then = [f"then=['echo then $RANK >>{said}']"] if way == SPAWN else []  # JC2010
    job = make(cluster, tmp_path / "job", way, "nodes=2", "procs=2", *steps, *then, command=program)
    code, output = job("submit", "--wait")
    assert code == 0, output
    first, *others, last = read(said).splitlines()
    assert (first, last) == ("before", "after 0")
    assert others[:2] == ["staged"] * 2 and sorted(others[2:6]) == ["rank 0", "rank 0", "rank 1", "rank 1"]
    assert sorted(others[6:]) == [f"then {rank}" for rank in range(4 if then else 0)]
