"""Backends slurm, ssh, pdsh, accelerate: the conformance suite, with goldens that really run on the test bed."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest

from jobc.compiler.testing.suite import BackendSuite
from jobc.tests.testbed import Cluster

GOLDEN = Path(__file__).parents[1] / "golden"
CLIENTS = ("sbatch", "srun", "squeue", "scontrol", "scancel", "ssh", "pdsh", "clush")


class OnTheTestbed:
    """The engine's clients, as they are on the login host."""

    @pytest.fixture(autouse=True)
    def _clients(self, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.stand_ins = tmp_path_factory.mktemp("clients")
        enter = shlex.join(cluster.login.entry)
        for name in CLIENTS:
            home = shlex.quote(f"HOME={cluster.login.home}") if name in ("ssh", "pdsh", "clush") else ""
            on_a_host = f'case $(uname -n) in login | node*) exec /usr/bin/{name} "$@" ;; esac'
            text = f'#!/bin/sh\n{on_a_host}\nexec {enter} env {home} /usr/bin/{name} "$@"\n'
            (self.stand_ins / name).write_text(text)
            (self.stand_ins / name).chmod(0o755)


@pytest.mark.engine
class TestSlurm(OnTheTestbed, BackendSuite):
    backend = "slurm"
    golden = GOLDEN / "slurm"
    queued: ClassVar = ("+backend.extra.begin=now+1hour",)


@pytest.mark.engine
class TestSsh(OnTheTestbed, BackendSuite):
    backend = "ssh"
    golden = GOLDEN / "ssh"
    overrides: ClassVar = ("hosts=node[1-4]", "nodes=1")


@pytest.mark.engine
class TestPdsh(OnTheTestbed, BackendSuite):
    backend = "pdsh"
    golden = GOLDEN / "pdsh"
    overrides: ClassVar = ("hosts=node[1-4]", "nodes=1")


@pytest.mark.engine
@pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is an extra")
class TestAccelerate(OnTheTestbed, BackendSuite):
    backend = "accelerate"
    golden = GOLDEN / "accelerate"
    # accelerate is not installed for the hosts' own Python
    overrides: ClassVar = ("hosts=node[1-4]", "nodes=1", f"python.interpreter={sys.executable}")
    launcher = "accelerate"
