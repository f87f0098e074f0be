"""jobc init: what it detects about Slurm and machines, what it writes, and what it never does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.compiler.cli.init import probe
from jobc.compiler.cli.init.probe import Fact
from jobc.compiler.cli.init.profile import format_profile
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest
from jobc.tests.quick_jobc import QuickJobc

SLURM = {
    "sinfo": "echo 'main*|4|64|512000|gpu:a100:4(S:0-1)|2-00:00:00'; echo 'main*|2|96|1024000|gpu:h100:8|2-00:00:00';"
    "echo 'debug|1|8|16000|(null)|30:00'; echo 'open|9|8|16000|(null)|infinite'",
    "sbatch": "echo slurm 23.11.4",
    "scontrol": "echo 'ClusterName             = lab'; echo 'SelectType              = select/cons_res';"
    "echo 'AccountingStorageEnforce = associations,limits'",
}


@pytest.fixture
def site(tmp_path: Path, quick_jobc: QuickJobc) -> Callable[..., subprocess.CompletedProcess[str]]:
    """site(*words, **programs): jobc init where exactly these programs are, with no terminal and an empty home."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()

    def run(*words: str, **programs: str) -> subprocess.CompletedProcess[str]:
        for name, text in programs.items():
            (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
            (tmp_path / "bin" / name).chmod(0o755)
        environment = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
        return quick_jobc.run(["init", *words], tmp_path / "work", environment)

    return run


def use(tmp_path: Path, *words: str) -> CompiledJob:
    return compile_job(CompileRequest(words, None, (("user", tmp_path / ".config" / "jobc"),)))


def test_slurm_is_read_and_the_profile_compiles(site: Callable[..., object], tmp_path: Path) -> None:
    done = site(**SLURM)
    assert done.returncode == 0, done.stderr  # type: ignore[attr-defined]
    text = (tmp_path / ".config/jobc/cluster/lab.yaml").read_text()
    for line in (
        "  - override /backend: slurm",
        "  version: 23.11          # sbatch --version",
        "  gpus_as: gres           # scontrol show config: SelectType=select/cons_res",
        "  requires: [queue.account] # scontrol show config: AccountingStorageEnforce",
        "  partitions:             # sinfo",
        "    main: {nodes: 6, gpus: 8, gpu_types: [a100, h100], cpus: 96, mem: 1024000MiB, time: 2d}",
        "    debug: {nodes: 1, gpus: 0, cpus: 8, mem: 16000MiB, time: 30m}",
        "    open: {nodes: 9, gpus: 0, cpus: 8, mem: 16000MiB}",
    ):
        assert line in text
    job = use(tmp_path, "cluster=lab", "nodes=6", "gpus=8", "queue.account=abc")
    assert "#SBATCH --gres=gpu:8" in next(a.text for a in job.artifacts if a.path == "job.sbatch")


def test_what_is_given_wins_over_what_is_found(site: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = site("here", "--project", "queue.account=abc", "site.partition=debug", "env.A=b c", **SLURM)
    assert done.returncode == 0, done.stderr
    assert "partition: debug        # as given" in done.stdout
    assert "  requires: [queue.account]" in done.stdout and "  account: abc            # as given" in done.stdout
    assert '  A: "b c"                # as given' in done.stdout
    assert "wrote jobc/cluster/here.yaml" in done.stdout


def test_a_version_that_jobc_does_not_know_is_told_and_left_out(site: Callable[..., object], tmp_path: Path) -> None:
    done = site(**{**SLURM, "sbatch": "echo slurm 19.05.2"})
    assert done.returncode == 0, done.stderr  # type: ignore[attr-defined]
    assert "#   not understood: backend.version=19.05" in (tmp_path / ".config/jobc/cluster/lab.yaml").read_text()


def test_hosts_in_a_file_stay_where_they_are(site: Callable[..., object], tmp_path: Path) -> None:
    (tmp_path / "work" / "list").write_text("# head first\n10.0.0.1\n10.0.0.2\n")
    done = site("lab", "hosts=@list", ssh='[[ "$*" == *"-- 10.0.0.1 nproc" ]] && echo 12')
    assert done.returncode == 0, done.stderr  # type: ignore[attr-defined]
    job = use(tmp_path, "cluster=lab", "nodes=2", "backend=ssh")
    assert job.plan.resources.hosts == ("10.0.0.1", "10.0.0.2") and job.spec.site.cpus == 12


def test_a_machine_with_gpus(site: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    nvidia = {"nvidia-smi": "echo NVIDIA H200; echo NVIDIA H200"}
    assert "  gpus: 2                 # nvidia-smi: NVIDIA H200" in site("one", **nvidia).stdout
    amd = {"nvidia-smi": "exit 9", "rocm-smi": "echo 'GPU[0] : Device ID: x'; echo 'GPU[1] : Device ID: x'"}
    assert "  gpus: 2                 # rocm-smi --showid" in site("two", **amd).stdout


def test_a_profile_is_not_overwritten_unless_forced(site: Callable[..., object], tmp_path: Path) -> None:
    file = tmp_path / ".config/jobc/cluster/lab.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    refused = site(**SLURM)
    assert "[JC1135 " in refused.stderr and file.read_text() == "mine"  # type: ignore[attr-defined]
    assert site("--force").returncode == 0 and file.read_text() != "mine"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["a b"], "JC1136"),
        (["lab", "two"], "JC1110"),
        (["--yse"], "JC1110"),
        (["lab", "gpsu=2"], "JC1201"),
        (["lab", "backend=ssh"], "JC4401"),
        (["lab", "time=90"], "JC1202"),
        (["lab", "python=vnev"], "JC1109"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(
    words: list[str], code: str, site: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = site(*words)
    assert done.returncode == 1 and f"[{code} " in done.stderr, done.stderr
    assert not (tmp_path / ".config").exists()


def test_a_look_up_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PATIENCE_S", 0.2)
    started = time.monotonic()
    assert probe.run_locally("sleep", "30") is None and time.monotonic() - started < 5


def test_strange_text_stays_text() -> None:
    text = format_profile(
        "x", [Fact("env.A", "a: b # c", ""), Fact("queue.name", "é", "by"), Fact("name", "no: n", "")], (), ()
    )
    assert '  A: "a: b # c"' in text and '  name: "é"' in text
