"""Caches: the rank variables, the folders on each node, and `jobctl prefetch` before a job without internet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest

HUB = """#!/bin/bash
printf '%s ' "$@" "HF_HOME=$HF_HOME" "offline=${HF_HUB_OFFLINE:-no}" "$HF_TOKEN" >>"$LOG"
echo >>"$LOG"
[[ $* != *missing* ]]
"""


class Job:
    """An artifact in a project of its own, and its scripts, with a program `hf` of the test's."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        words = ("name=job", "launcher=spawn", *words)
        self.artifact = write_compiled_job(compile_job(CompileRequest(words, ("true",))), folder / "artifacts")
        (folder / "bin").mkdir()
        (folder / "bin" / "hf").write_text(HUB)
        (folder / "bin" / "hf").chmod(0o755)

    def __call__(self, *words: str, **env: str) -> tuple[int, str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        known = {"PATH": path, "HOME": str(self.folder), "LOG": str(self.folder / "log"), **env}
        command = [str(self.artifact / words[0]), *words[1:]]
        done = subprocess.run(command, cwd=self.folder, env=known, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def environment(self, **env: str) -> dict[str, str]:
        program = "import json, os; print(json.dumps(dict(os.environ)))"
        code, said = self("jobctl", "shell", "--", "python3", "-c", program, **env)
        assert code == 0, said
        return dict(json.loads(said))


def test_shared_downloads_lie_beside_artifacts_and_kernels_on_the_node(tmp_path: Path) -> None:
    seen = Job(tmp_path, "caches=shared", f"caches.compiled={tmp_path}/node-$UID/compiled").environment()
    assert seen["HF_HOME"] == f"{tmp_path}/caches/huggingface" and seen["TORCH_HOME"] == f"{tmp_path}/caches/torch"
    compiled = tmp_path / f"node-{os.getuid()}" / "compiled"
    assert (
        seen["TRITON_CACHE_DIR"] == f"{compiled}/triton" and seen["TORCHINDUCTOR_CACHE_DIR"] == f"{compiled}/inductor"
    )
    assert compiled.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "caches").stat().st_mode & 0o777 == 0o755
    assert seen["HF_TOKEN_PATH"] == f"{tmp_path}/.cache/huggingface/token"
    assert "HF_HUB_OFFLINE" not in seen


def test_the_user_s_own_variables_win(tmp_path: Path) -> None:
    seen = Job(tmp_path, "caches=shared", "caches.compiled=null", "env.HF_HOME=/mine").environment()
    assert seen["HF_HOME"] == "/mine" and "TRITON_CACHE_DIR" not in seen


def test_without_caches_nothing_is_set(tmp_path: Path) -> None:
    assert not [name for name in Job(tmp_path).environment() if name.startswith(("HF_", "TORCH", "TRITON"))]


def test_kernels_in_a_folder_of_somebody_else_are_refused(tmp_path: Path) -> None:
    folder = "/usr"
    if os.getuid() == 0:
        folder = f"{tmp_path}/theirs-$UID"
        (tmp_path / "theirs-0").mkdir()
        os.chown(tmp_path / "theirs-0", 12345, 12345)
    code, said = Job(tmp_path, f"caches.compiled={folder}")("jobctl", "shell", "--", "true")
    assert code == 65 and "belongs to another user" in said and "set caches.compiled to another folder" in said


def test_prefetch_asks_the_internet_and_the_ranks_do_not(tmp_path: Path) -> None:
    wanted = "caches.prefetch=[model:org/a@v1,dataset:b,'run:echo $HF_TOKEN >ran']"
    job = Job(tmp_path, "caches=shared", "caches.offline=true", wanted, "secrets.HF_TOKEN=env:HF_TOKEN", "code=shared")
    code, said = job("jobctl", "prefetch", HF_TOKEN="s3cret")
    assert code == 0, said
    home = f"HF_HOME={tmp_path}/caches/huggingface offline=no s3cret"
    assert (tmp_path / "log").read_text().splitlines() == [
        f"download org/a --repo-type model --revision v1 {home} ",
        f"download b --repo-type dataset {home} ",
    ]
    assert (tmp_path / "ran").read_text() == "s3cret\n"
    seen = job.environment(HF_TOKEN="s3cret")
    assert [seen[f"{name}_OFFLINE"] for name in ("HF_HUB", "TRANSFORMERS", "HF_DATASETS")] == ["1", "1", "1"]


def test_a_failed_download_is_named_and_the_others_are_still_tried(tmp_path: Path) -> None:
    job = Job(tmp_path, "caches=shared", "caches.prefetch=[model:org/missing,dataset:b]")
    code, said = job("jobctl", "prefetch")
    assert code == 1 and "could not be downloaded: org/missing" in said
    assert "download b" in (tmp_path / "log").read_text()


def test_prefetch_uses_the_older_client_of_the_hub_where_it_is_the_only_one(tmp_path: Path) -> None:
    job = Job(tmp_path, "caches=shared", "caches.prefetch=[dataset:b]")
    (tmp_path / "bin/hf").rename(tmp_path / "bin/huggingface-cli")
    code, said = job("jobctl", "prefetch", PATH=f"{tmp_path}/bin:{python_only(tmp_path)}:/usr/bin:/bin")
    assert code == 0, said
    assert (tmp_path / "log").read_text().startswith("download b --repo-type dataset ")


def test_prefetch_reports_an_environment_without_a_client_of_the_hub(tmp_path: Path) -> None:
    job = Job(tmp_path, "caches=shared", "caches.prefetch=[dataset:b,'run:touch ran']", "code=shared")
    code, said = job("jobctl", "prefetch", PATH=f"{python_only(tmp_path)}:/usr/bin:/bin")
    assert (
        code == 1
        and "error: hf is not installed in the job's environment" in said
        and "could not be downloaded: b" in said
    )
    assert (tmp_path / "ran").exists()


def python_only(folder: Path) -> Path:
    """Return a folder for PATH that has the Python of this test, but not the programs beside it."""
    (folder / "python").mkdir()
    (folder / "python/python3").symlink_to(sys.executable)
    return folder / "python"


def test_prefetch_without_downloads_does_nothing_and_help_does_not_list_it(tmp_path: Path) -> None:
    job = Job(tmp_path, "caches=shared")
    assert job("jobctl", "prefetch") == (0, "nothing to download: caches.prefetch is empty\n")
    assert "\n  prefetch " not in job("jobctl", "help")[1]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("caches.compiled=/tmp/x",), "JC2069"),
        (("caches=node", "caches.prefetch=[model:a/b]"), "JC2069"),
        (("caches.prefetch=[a/b]",), "JC1202"),
        (("caches.prefetch=[model:a/b/c]",), "JC1202"),
        (("caches.prefetch=['run: ']",), "JC1202"),
    ],
)
def test_folders_and_names_that_cannot_serve_are_refused(words: tuple[str, ...], code: str) -> None:
    with pytest.raises(CompileError) as error:
        compile_job(CompileRequest(words))
    assert [d.code for d in error.value.diagnostics] == [code]
