"""The same input gives the same bytes, for any user, place and time, and no file contains facts about this machine."""

from __future__ import annotations

import datetime
import getpass
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
import yaml

import jobc
from jobc.compiler.emit.artifact import PROGRAM
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest

ROOT = Path(__file__).parents[3]
JOB = (
    "name=same", "procs=2", "cpus=4", "mem=16GiB", "time=2h", "python=venv", "python.path=/typed/by/the/user",
    "env.Z=last", "env.A=first", "secrets.Y=env:Y", "secrets.X=file:~/x", "labels.b=2", "labels.a=1", "queue.name=gpu",
    "queue.exclude=n1,n2", "optim.lr=3e-4",
)  # fmt: skip
COMPILE = "import sys; from jobc.compiler.cli import main; raise SystemExit(main(sys.argv[1:]))"

Tree = dict[str, tuple[int, bytes]]


def read_tree(folder: Path) -> Tree:
    """path -> (mode, content) of every file and folder below."""
    return {
        p.relative_to(folder).as_posix(): (p.stat().st_mode, p.read_bytes() if p.is_file() else b"")
        for p in sorted(folder.rglob("*"))
    }


def compile_in(folder: Path, umask: int = 0o022, package: Path | None = None, **environment: str) -> Tree:
    """The artifact directory that one process, started in `folder`, writes there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = str(package) if package else os.environ.get("PYTHONPATH", "")
    outer = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", COMPILE, *JOB]
    set_umask = partial(os.umask, umask)
    subprocess.run(
        command, cwd=folder, env={**outer, **environment}, preexec_fn=set_umask, check=True, capture_output=True
    )
    return read_tree(folder / "artifacts" / "same" / "local")


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return compile_in(tmp_path_factory.mktemp("usual"), PYTHONHASHSEED="0")


@pytest.mark.parametrize(
    "other",
    [
        {"LC_ALL": "C", "LANG": "C"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"TZ": "Asia/Kolkata", "USER": "somebody", "LOGNAME": "somebody", "HOSTNAME": "elsewhere"},
        {"PYTHONHASHSEED": "1", "SOURCE_DATE_EPOCH": "1", "XDG_CONFIG_HOME": "/nonexistent", "COLUMNS": "20"},
        {"JOBC_RUN_ROOT": "/x", "JOBC_DATA_DIR": "/y", "RANK": "3", "OMP_NUM_THREADS": "7", "HF_TOKEN": "t"},
    ],
    ids="+".join,
)
def test_another_environment_gives_the_same_bytes(usual: Tree, tmp_path: Path, other: dict[str, str]) -> None:
    assert compile_in(tmp_path / "another folder é", **other) == usual


def test_another_umask_gives_the_same_files_and_modes(usual: Tree, tmp_path: Path) -> None:
    assert compile_in(tmp_path, umask=0o077) == usual


def test_another_checkout_gives_the_same_bytes(usual: Tree, tmp_path: Path) -> None:
    """The package may lie anywhere, and its files may have any time stamp and order."""
    package = tmp_path / "my packages" / "jobc"
    package.mkdir(parents=True)
    for name in ("runtime", "trainer", "conf", "backends", "compiler"):
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "__init__.py", package)
    assert compile_in(tmp_path / "work", package=package.parent) == usual


def test_nothing_of_the_compiling_machine_is_in_any_file(usual: Tree) -> None:
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    telling = [str(ROOT), str(Path.home()) + "/", sys.prefix, os.path.dirname(sys.executable), "/tmp/pytest", today]
    for path, (_, content) in usual.items():
        if path == PROGRAM:
            continue
        text = content.decode()
        assert not [word for word in telling if word in text], path
        for word in {platform.node(), getpass.getuser()} - {"root", "localhost"}:
            assert not re.search(rf"\b{re.escape(word)}\b", text), path


def test_no_absolute_path_but_those_that_were_typed_or_belong_to_every_machine(usual: Tree) -> None:
    everywhere = ("/typed/", "/usr/", "/dev/", "/proc/", "/tmp", "/bin/", "/nonexistent", "/run/", "/etc/", "/sys/")
    for path, (_, content) in usual.items():
        if path == PROGRAM:
            continue  # the sources of the trainer, the same for all
        found = re.findall(r"(?<![\w.$}*<)\"'\]–-])/[a-z]\w*(?:/[\w.-]+)+", content.decode())
        assert not [p for p in found if not p.startswith(everywhere)], path


def test_the_version_of_jobc_is_in_the_job_file_alone(
    usual: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {a.path: a.text for a in compile_job(CompileRequest(JOB)).artifacts}
    monkeypatch.setattr("jobc.compiler.pipeline.seal.__version__", "99.9.9")
    after = {a.path: a.text for a in compile_job(CompileRequest(JOB)).artifacts}
    assert [path for path in after if after[path] != before[path]] == [".jobc/job.json"]
    tree = json.loads(after[".jobc/job.json"])
    assert tree["versions"] == {"jobc": "99.9.9"}
    assert json.loads(before[".jobc/job.json"]) == {**tree, "versions": {"jobc": jobc.__version__}}


def files(words: Iterable[str]) -> dict[str, str]:
    return {a.path: a.text for a in compile_job(CompileRequest(tuple(words))).artifacts}


@pytest.mark.parametrize(
    "words",
    [
        JOB,
        ("backend=slurm", "model=mlp", "task=digits", "+backend.extra.switches=1", "+backend.extra.comment=x"),
        (
            "launcher=accelerate", "parallel=deepspeed", "gpus=1", "accelerate.extra.main_training_function=m",
            "accelerate.extra.downcast_bf16=false", "accelerate.deepspeed_extra.flops_profiler.enabled=true",
            "accelerate.deepspeed_extra.flops_profiler.detailed=true", "accelerate.deepspeed_extra.dump_state=true",
        ),
        (
            "backend=kubernetes", "image=x:1", "code=image", "code.root=/app", "storage.root=/s/r",
            "mounts=[{kind: claim, source: c, target: /s, read_only: false}]", "labels.b=2", "labels.a=1",
            "secrets.B=k8s:s/b", "secrets.A=k8s:s/a", "backend.extra.Pod.metadata.annotations.b=2",
            "backend.extra.Pod.metadata.annotations.a=1", "backend.extra.Pod.spec.hostIPC=true",
        ),
        ("backend=skypilot", "labels.b=2", "labels.a=1", "backend.extra.resources.local_disk=nvme"),
    ],
    ids=["local", "slurm", "deepspeed", "kubernetes", "skypilot"],
)  # fmt: skip
def test_the_order_of_overrides_of_different_keys_does_not_matter(words: tuple[str, ...]) -> None:
    usual = files(words)
    for other in (words[::-1], sorted(words)):
        now = files(other)
        assert [path for path in usual if usual[path] != now.get(path)] == []


@pytest.mark.parametrize(
    "words",
    [
        ("env={A: 1, B: 2}", "env.B=3"),
        ("env.B=3", "env={A: 1, B: 2}"),
        ("env.B=3", "~env.B", "env.A=1"),
        ("env={B: 1}", "~env.B", "env.B=3"),
        ("env.B=3", "++env.B=4", "env.A=1"),
        ("model=target", "model._target_=m.Net", "model.context=8", "model.z={b: 1, a: 2}", "model.y=1"),
        ("model=target", "model.z.b=1", "model.z.a=2", "model.context=8", "model._target_=m.Net"),
    ],
)
def test_the_recorded_words_give_the_same_where_their_order_counts(words: tuple[str, ...]) -> None:
    first = files(words)
    recorded = json.loads(first[".jobc/job.json"])["request"]["words"]
    assert sorted(recorded) == sorted(words)
    assert files(recorded) == first


def test_what_becomes_a_list_keeps_the_order_in_which_it_was_typed() -> None:
    """Init containers run one after another, and a variable of a pod may be made of those before it."""
    init = "backend.extra.Pod.spec.initContainers"
    words = (
        "backend=kubernetes", "image=x:1", "code=image", "code.root=/app", "storage.root=/s/r",
        "mounts=[{kind: claim, source: c, target: /s, read_only: false}]", f"{init}.z={{image: y}}",
        f"{init}.b={{image: y}}", f"{init}.b.env.Z.value=1", f"{init}.b.env.A.value=$(Z)",
    )  # fmt: skip
    first = files(words)
    (pod,) = [d["spec"]["template"]["spec"] for d in yaml.safe_load_all(first["job.yaml"]) if d["kind"] == "Job"]
    own = [c for c in pod["initContainers"] if c["name"] in ("z", "b")]
    assert [c["name"] for c in own] == ["z", "b"] and [v["name"] for v in own[1]["env"]] == ["Z", "A"]
    assert files(json.loads(first[".jobc/job.json"])["request"]["words"]) == first
    assert files((*words[:-2], words[-1], words[-2]))["job.yaml"] != first["job.yaml"]
