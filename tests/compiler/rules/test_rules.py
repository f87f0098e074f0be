"""No rule fires on a golden that compiles, but those named here; that each fires on its own page: test_codes.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import Diagnostic
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.sweeps import compile_sweep
from jobc.compiler.testing.golden import is_sweep_case, read_golden_case

GOLDEN = Path(__file__).parents[2] / "golden"
ABOUT = {  # case, code -> why it is right that the job is told
    "kubernetes/experiment_opensora_k8s JC4517": "the experiment is of a team with apptainer, and a pod is none",
    "skypilot/experiment_opensora_k8s JC4517": "the experiment is of a team with apptainer, and a pod is none",
    "skypilot/experiment_opensora_k8s JC4706": "its storage is a folder of the hosts, which is noted",
    "kubernetes/extra_keys JC4522": "it shows that whoever adds privileged gets it, and is warned",
    "kubernetes/nfs_host_and_empty_mounts JC3002": "it shows that $(runs) arrives letter for letter",
    **{f"slurm/{case} JC4306": "the cores are those of the site" for case in (
        "a_sweep_is_an_array", "accelerate_zero1", "apptainer", "ethernet", "experiment_aorta",
        "experiment_audio_encoder", "experiment_opensora_k8s", "experiment_qwen_image",
        "pyxis", "two_nodes_of_two_gpus",
    )},
    "local/experiment_qwen_image JC4102": "the experiment names hosts of a queue, and this machine has no queue",
    "local/experiment_slurm_ddp JC4102": "the experiment names hosts of a queue, and this machine has no queue",
    "local/name_and_values_with_quotes JC3002": "it shows that $HOME and $(id) arrive letter for letter",
    "local/two_nodes_here JC4102": "both nodes are this machine, whatever hosts says",
    "local/wishes_left_out JC4102": "it shows what is told of wishes that have no effect here",
    "skypilot/experiment_qwen_image JC4712": "the experiment names hosts of Slurm, and SkyPilot chooses its own",
    "skypilot/experiment_slurm_ddp JC4712": "the experiment names hosts of Slurm, and SkyPilot chooses its own",
    "skypilot/ssh_pool_with_folders_of_its_nodes JC4706": "it shows a folder of the hosts, which is noted",
    "skypilot/ssh_pool_with_folders_of_its_nodes JC4712": "it names hosts, and a pool has its own",
    "skypilot/kubernetes_spot_and_image JC4721": "it has no profile that names the context",
    "skypilot/kubernetes_tcpx_and_bucket JC4721": "it has no profile that names the context",
    "skypilot/kubernetes_with_disks_of_its_nodes JC4721": "it has no profile that names the context",
    "skypilot/slurm_and_bucket JC4721": "it has no profile that names the cluster",
    "skypilot/slurm_slingshot_with_disks_of_its_nodes JC4721": "it has no profile that names the cluster",
    "skypilot/slurm_with_everything JC4721": "it has no profile that names the cluster",
    "skypilot/ssh_pool_infiniband_and_bucket JC4721": "it has no profile that names the pool",
    "skypilot/ssh_pool_with_disks_of_its_nodes JC4721": "it has no profile that names the pool",
    "skypilot/ssh_pool_with_folders_of_its_nodes JC4721": "it has no profile that names the pool",
    "ssh/experiment_slurm_ddp JC4102": "its team says mem to Slurm",
    "pdsh/experiment_slurm_ddp JC4102": "its team says mem to Slurm",
    "kubernetes/own_script_alone JC4502": "it shows that runs without a volume end with their pods",
    **{f"skypilot/{case} JC4724": "its runs are on machines that SkyPilot deletes" for case in (
        "cloud_buckets_efa_and_shm", "code_from_git", "experiment_aorta", "experiment_audio_encoder",
        "experiment_qwen_image", "experiment_slurm_ddp", "kubernetes_with_disks_of_its_nodes", "setup_and_secret",
        "two_nodes_of_their_own",
    )},
}  # fmt: skip


def found(case: Path) -> list[Diagnostic]:
    made = compile_sweep(read_golden_case(case)) if is_sweep_case(case) else [compile_job(read_golden_case(case))]
    return [d for one in made for d in one.diagnostics]


@pytest.mark.slow
def test_no_rule_fires_on_a_golden_but_those_that_are_named() -> None:
    cases = sorted(file.parent for file in GOLDEN.glob("*/*/overrides.txt"))
    cases = [case for case in cases if not (case / "expected.txt").exists()]  # which holds all that is told
    assert len(cases) > 90
    fired = {f"{case.relative_to(GOLDEN).as_posix()} {d.code}" for case in cases for d in found(case)}
    assert fired == ABOUT.keys()
