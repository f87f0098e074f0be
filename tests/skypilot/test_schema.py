"""SkyPilot reads what jobc emits, and its schema is the one that the backend carries."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.skypilot import schema
from jobc.tests.skypilot.bed import HERE, SKY, seed_catalog

GOLDEN = Path(__file__).parents[1] / "golden" / "skypilot"
NEED_A_CATALOG = {"cloud_with_disks_ports_and_extra", "managed_on_any_cloud", "run_in_a_bucket"}  # regions of AWS
NEED_A_CLUSTER = {"slurm_with_everything"}  # SkyPilot asks it for the partition


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("home")
    seed_catalog(home)
    seed_sites(home)
    files = [str(file) for file in sorted(GOLDEN.glob("*/expected/task.sky.yaml"))]
    environment = {**os.environ, "HOME": str(home), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    command = [str(SKY / "bin" / "python"), "-W", "ignore", str(HERE / "read_tasks.py"), *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def seed_sites(home: Path) -> None:
    """The cluster of Slurm, the context of Kubernetes and the pool of machines that the goldens name; none is there."""
    (home / ".slurm").mkdir()
    (home / ".slurm" / "config").write_text("Host mycluster\n    HostName 127.0.0.1\n    Port 9\n    User nobody\n")
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("research", "ssh-rack")]
    server = {"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "research",
        "clusters": [server],
        "users": [{"name": "u", "user": {}}],
    }
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(json.dumps({**kubeconfig, "contexts": contexts}))
    (home / ".sky" / "ssh_node_pools.yaml").write_text("rack: {hosts: [127.0.0.1]}\n")


def test_skypilot_takes_every_golden_task(said: dict[str, Any]) -> None:
    answers = {Path(file).parts[-3]: answer for file, answer in said.items() if file.endswith(".yaml")}
    assert len(answers) >= 10 and not any(answers.values()), answers
    assert {Path(file).parts[-3] for file in said["only_read"]} == NEED_A_CATALOG | NEED_A_CLUSTER


def test_the_schema_is_that_of_skypilot(said: dict[str, Any]) -> None:
    carried = json.loads(json.dumps(schema.schemas()))
    assert carried == said["schemas"], (
        "write it anew: get_task_schema() and get_resources_schema() of sky.utils.schemas"
    )
