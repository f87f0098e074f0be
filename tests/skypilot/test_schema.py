"""SkyPilot reads what jobc emits and finds machines for it; its schema equals the one in the backend."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.skypilot import schema
from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.skypilot.bed import HERE, SKY, seed_catalog

GOLDEN = Path(__file__).parents[1] / "golden" / "skypilot"
NUMBERS = {"aws-H100": (1, 3, 8), "aws-K80": (1,), "gcp-H100": (3, 8)}  # asked for of a cloud
Said = dict[str, Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    seed_catalog(home)
    seed_sites(home)
    return home


def ask(home: Path, files: list[Path]) -> Said:
    """Return what SkyPilot reports about tasks (read_tasks.py)."""
    path = f"{HERE / 'stand_ins'}:{os.environ['PATH']}"
    environment = {**os.environ, "HOME": str(home), "PATH": path, "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    command = [str(SKY / "bin" / "python"), "-W", "ignore", str(HERE / "read_tasks.py"), *map(str, files)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: Said = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def said(home: Path) -> Said:
    return ask(home, sorted(GOLDEN.glob("*/expected/task.sky.yaml")))


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


def cases(found: dict[str, Any]) -> dict[str, Any]:
    return {Path(file).parts[-3]: answer for file, answer in found.items()}


def test_skypilot_takes_every_golden_task(said: Said) -> None:
    refused = cases(said["refused"])
    assert len(refused) >= 20 and not any(refused.values()), refused


def test_the_clouds_that_goldens_name_have_their_machines(said: Said) -> None:
    machines = {case: sorted(found) for case, found in cases(said["machines"]).items() if found}
    assert machines == {
        "cloud_buckets_efa_and_shm": [["p5.48xlarge"]],
        "cloud_with_disks_ports_and_extra": [["p5.48xlarge"], ["p5en.48xlarge"]],
        "managed_on_any_cloud": [["a3-highgpu-8g"], ["p5en.48xlarge"]],
        "run_in_a_bucket": [["p5.48xlarge"]],
    }


def test_a_number_that_jobc_warns_of_is_one_for_which_skypilot_finds_no_machine(home: Path, tmp_path: Path) -> None:
    warned, files = {}, {}
    for asked, numbers in NUMBERS.items():
        cloud, kind = asked.split("-")
        for count in numbers:
            words = (
                "backend=skypilot",
                "storage.run=node",
                f"backend.infra={cloud}",
                f"gpu_type={kind}",
                f"gpus={count}",
            )
            made = compile_job(CompileRequest(words))
            files[asked, count] = write_compiled_job(made, tmp_path / f"{asked}-{count}") / "task.sky.yaml"
            warned[asked, count] = any(each.code == "JC4705" for each in made.diagnostics)
    said = ask(home, [*files.values()])
    finds = {key: said["machines"].get(str(file)) for key, file in files.items()}
    assert {key: found == [[]] for key, found in finds.items()} == warned, (finds, said["refused"])


def test_the_schema_is_that_of_skypilot(said: Said) -> None:
    carried = json.loads(json.dumps(schema.load_schemas()))
    assert carried == said["schemas"], "write it anew: those of sky.utils.schemas that read_tasks.py prints"
