"""Same input, same bytes: whoever compiles, wherever, whenever. And nothing of the compiling machine in any file."""

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
from functools import partial
from pathlib import Path

import pytest

import jobc
from jobc.compiler.driver import Request, compile_job

ROOT = Path(__file__).parents[2]
JOB = (
    "name=same", "procs=2", "cpus=4", "mem=16GiB", "time=2h", "env=venv", "python.path=/typed/by/the/user",
    "env.Z=last", "env.A=first", "secrets.Y=env:Y", "secrets.X=file:~/x", "labels.b=2", "labels.a=1", "queue.name=gpu",
    "queue.exclude=n1,n2", "optim.lr=3e-4",
)  # fmt: skip
PROGRAM = "import sys; from jobc.compiler.cli import main; raise SystemExit(main(sys.argv[1:]))"

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
    command = [sys.executable, "-c", PROGRAM, *JOB]
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
    for name in ("trainer", "conf", "backends", "compiler"):
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "__init__.py", package)
    assert compile_in(tmp_path / "work", package=package.parent) == usual


def test_nothing_of_the_compiling_machine_is_in_any_file(usual: Tree) -> None:
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    telling = [str(ROOT), str(Path.home()) + "/", sys.prefix, os.path.dirname(sys.executable), "/tmp/pytest", today]
    for path, (_, content) in usual.items():
        text = content.decode()
        assert not [word for word in telling if word in text], path
        for word in {platform.node(), getpass.getuser()} - {"root", "localhost"}:
            assert not re.search(rf"\b{re.escape(word)}\b", text), path


def test_no_absolute_path_but_those_that_were_typed_or_belong_to_every_machine(usual: Tree) -> None:
    everywhere = ("/typed/", "/usr/", "/dev/", "/proc/", "/tmp", "/bin/", "/nonexistent", "/run/", "/etc/", "/sys/")
    for path, (_, content) in usual.items():
        if path.startswith("lib/"):
            continue  # the sources of the trainer, the same for all
        found = re.findall(r"(?<![\w.$}*<)\"'\]–-])/[a-z]\w*(?:/[\w.-]+)+", content.decode())
        assert not [p for p in found if not p.startswith(everywhere)], path


def test_the_version_of_jobc_is_in_the_manifest_alone(
    usual: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {a.path: a.text for a in compile_job(Request(JOB)).artifacts}
    monkeypatch.setattr("jobc.compiler.driver.__version__", "99.9.9")
    after = {a.path: a.text for a in compile_job(Request(JOB)).artifacts}
    assert [path for path in after if after[path] != before[path]] == [".jobc/manifest.json"]
    tree = json.loads(after[".jobc/manifest.json"])
    assert tree["jobc"] == "99.9.9"
    assert json.loads(before[".jobc/manifest.json"]) == {**tree, "jobc": jobc.__version__}


def test_variables_keep_the_order_in_which_they_were_typed(usual: Tree) -> None:
    """The order is the user's, as in a shell script: one value may be meant to be read before another."""
    node = usual["node.sh"][1].decode()
    assert re.findall(r"^export ([AZ])=", node, re.MULTILINE) == ["Z", "A"]
    assert re.findall(r"^secret_\w+ (\w)", node, re.MULTILINE) == ["Y", "X"]


def test_the_order_of_overrides_of_different_keys_does_not_matter() -> None:
    def files(words: tuple[str, ...]) -> dict[str, str]:
        return {a.path: a.text for a in compile_job(Request(words)).artifacts}

    assert files(("name=same", "procs=2", "cpus=4")) == files(("cpus=4", "name=same", "procs=2"))
