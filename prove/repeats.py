"""Change a compile's inputs and its artifact at random: a recognized repeat would have changed nothing."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from jobc.compiler.cli import main
from jobc.compiler.cli.skip_unchanged import compile_and_record, reprint_if_unchanged

from .campaign import Campaign, Line, expect, k_of_n

CHANGES = 100
WORDS = ["--config-dir", "more", "backend=ssh", "experiment=small", "hosts=@nodes.txt", "--", "train.py"]
FILES = {
    "train.py": "print('hello')\n",
    "nodes.txt": "node1\nnode2\nnode3\n",
    "jobc/config.yaml": "name: changing\nseed: 3\n",
    "jobc/experiment/small.yaml": "# @package _global_\nprocs: 2\ntime: 10m\n",
    "more/queue/night.yaml": "account: lab\n",
    "home/.config/jobc/config.yaml": "defaults: [_self_]\nseed: 5\n",
}
SHADOWS = (  # files that do not exist, and that would be read if they did
    "more/config.yaml",
    "more/experiment/small.yaml",
    "jobc/backend/ssh.yaml",
    "home/.config/jobc/experiment/small.yaml",
    "jobc/__init__.py",
)
CONTENTS = (b"name: another\n", b"seed: 8\n", b"# @package _global_\nprocs: 1\n", b"node7\nnode8\n", b"\xff", b"", b"[")
VARIABLES = ("HOME", "XDG_CONFIG_HOME", "NO_COLOR", "PYTHONHASHSEED")
Result = tuple[int, str, str, dict[str, tuple[int, bytes]]]


def run(number: int, folder: Path) -> dict[str, Any]:
    random, project = Random(number), folder / "project"
    noticed = 0
    with _inside(project, folder):
        _restore(project)
        before = _compiled(project)
        expect(before[0] == 0, f"the job does not compile: {before[2]}")
        for change in range(CHANGES):
            what = _change(random, project)
            known = _recognized(project)
            again = _compiled(project)
            if known is not None:
                expect(known == again, f"change {change} was not noticed: {what}", seed=number)
            noticed += known is None
            if again[0] != 0 or random.random() < 0.3:
                _restore(project)
                again = _compiled(project)
    return {"seed": number, "changes": CHANGES, "noticed": noticed}


def _change(random: Random, project: Path) -> str:
    """Change one thing, and describe the change."""
    files = [*FILES, *(str(p.relative_to(project)) for p in sorted((project / "artifacts").rglob("*")) if p.is_file())]
    name = random.choice([*files, *SHADOWS])
    file, kind = project / name, random.choice(("content", "byte", "gone", "link", "mode", "touched", "variable"))
    if kind == "variable":
        variable = random.choice(VARIABLES)
        os.environ[variable] = random.choice((str(project / "home"), str(project / "more"), "1"))
        return f"{variable}={os.environ[variable]}"
    if kind in ("gone", "link"):
        file.unlink(missing_ok=True)
    if kind == "link":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(random.choice(("/etc/hostname", str(project / "nodes.txt"), "nowhere")))
    elif kind == "byte" and file.is_file() and (content := bytearray(file.read_bytes())):
        content[random.randrange(len(content))] ^= 1
        file.write_bytes(content)
    elif kind == "mode" and file.is_file():
        file.chmod(random.choice((0o600, 0o644, 0o755)))
    elif kind == "touched" and file.is_file():
        os.utime(file, (random.randrange(10**9), random.randrange(10**9)))
    elif kind != "gone":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(random.choice(CONTENTS))
    return f"{name}: {kind}"


def _recognized(project: Path) -> Result | None:
    """Return the result of a compile if it is recognized as a repeat, otherwise None."""
    with _captured() as (out, err):
        known = reprint_if_unchanged(WORDS)
    return (0, out.getvalue(), err.getvalue(), _artifact(project)) if known else None


def _compiled(project: Path) -> Result:
    with _captured() as (out, err):
        status = compile_and_record(WORDS, lambda: main(WORDS))
    return status, out.getvalue(), err.getvalue(), _artifact(project)


def _artifact(project: Path) -> dict[str, tuple[int, bytes]]:
    files = (p for p in (project / "artifacts").rglob("*") if p.is_file())
    return {str(p.relative_to(project)): (p.stat().st_mode, p.read_bytes()) for p in files}


def _restore(project: Path) -> None:
    for path in project.iterdir() if project.exists() else ():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    os.environ["HOME"] = str(project / "home")
    for variable in VARIABLES[1:]:
        os.environ.pop(variable, None)


@contextlib.contextmanager
def _captured() -> Iterator[Sequence[io.StringIO]]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield out, err


@contextlib.contextmanager
def _inside(project: Path, folder: Path) -> Iterator[None]:
    """Work in the project, with a cache of its own."""
    project.mkdir(parents=True)
    before, variables = Path.cwd(), dict(os.environ)
    os.chdir(project)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(variables)


def _figure(lines: Sequence[Line]) -> str:
    changes = sum(line.get("changes", 0) for line in lines)
    return f"{k_of_n(lines)}, {changes:,} changes"


CAMPAIGN = Campaign(
    name="repeats",
    claim="A compile that is recognized as a repeat would have changed nothing.",
    trial=(
        f"makes {CHANGES} changes, drawn by seed, to an ssh job's inputs and its artifact: contents, single bits, modes"
        " and times of files, symlinks, deleted files, files that hide others, and environment variables. After each"
        " change, the same command line is compiled in full. If it had been recognized as a repeat, the output, the"
        " exit code and every file must be equal."
    ),
    count=20,
    run=run,
    figure=_figure,
)
