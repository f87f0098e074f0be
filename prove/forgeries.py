"""Forge input at random: an attacker's run folders, artifacts, checkpoints, metrics and specs.

Each function damages its input so that a reader that evaluates, follows or trusts it would run the command that creates
the file `mark`, read a file outside the folder, loop forever or run out of memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

TEXT_SUFFIXES = ("", ".txt", ".json", ".jsonl", ".yaml", ".sh", ".md")
SPARSE_BYTES = 300_000_000


def commands(mark: Path) -> list[str]:
    """Return texts that run `touch mark` if they are evaluated as shell, arithmetic, Python, YAML or a format
    string.
    """
    touch = f"touch {mark}"
    return [
        f"run[$({touch})]", f"a[0$({touch})]", f"x[`{touch}`]", f"$({touch})", f"`{touch}`", f"1; {touch}",
        f"| {touch}", f"1\n{touch}\n", f"'; {touch}; '", f'"; {touch}; "', f"$((x[$({touch})]))",
        f"1 && {touch}", f"%s%n$({touch})",
        f"!!python/object/apply:os.system ['{touch}']", f"{{{{ cycler.__init__.__globals__.os.system('{touch}') }}}}",
        f"__import__('os').system('{touch}')", f"-exec {touch} ;", f"-oProxyCommand={touch}", f"%0a::error::{touch}",
    ]  # fmt: skip


def oddities(outside: Path) -> list[str]:
    """Return texts that are valid nowhere, or that lead out of the folder."""
    return [
        "", " ", "-1", "08", "0x10", "1e999", "9" * 40, "-" + "9" * 40, "nan", "1" * 5000,
        "\x1b]0;title\x07\x1b[31mred", "\u202etxt", "a\rb", "\x00",
        "../../../etc/passwd", str(outside), f"../../{outside.name}", "-rf", "--help", "*",
        "~", "@" + str(outside), "/dev/zero", "x" * 300_000, "\ud7ff\uffff", "[" * 50_000, '{"a":' * 20_000, "null",
    ]  # fmt: skip


def text(chance: Random, mark: Path, outside: Path) -> str:
    return chance.choice(commands(mark) if chance.random() < 0.6 else oddities(outside))


def file_name(chance: Random, mark: Path) -> str:
    """Return a hostile file name.

    A file name cannot contain slashes, so its command creates the mark in the working directory.
    """
    name = chance.choice(commands(Path(mark.name))).replace("/", "_").strip()
    return name[:200] or "-"


# ---- one file


def replace_file(path: Path, chance: Random, outside: Path) -> None:
    """Put a pipe, a link, a folder, another encoding or too many bytes where a small text file is expected."""
    kinds: dict[str, Callable[[], object]] = {
        "fifo": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "link_to_zero": lambda: path.symlink_to("/dev/zero"),
        "link_outside": lambda: path.symlink_to(outside),
        "link_to_itself": lambda: path.symlink_to(path.name),
        "not_utf8": lambda: path.write_bytes(b"\xff\xfe\x00exit=0\n" * 50),
        "deep": lambda: path.write_text("[" * 100_000),
        "sparse": lambda: _sparse(path),
        "empty": lambda: path.write_bytes(b""),
        "big_number": lambda: path.write_text('{"step": ' + "9" * 10_000 + "}\n"),
    }
    _remove(path)
    kinds[chance.choice(sorted(kinds))]()


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SPARSE_BYTES)


def _remove(path: Path) -> None:
    path.parent.chmod(0o755)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def edit_lines(path: Path, chance: Random, mark: Path, outside: Path) -> None:
    """Replace one value in `key=value` or `"key": value` lines (in other files, a whole line) with hostile text."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    number = chance.randrange(len(lines))
    value = text(chance, mark, outside)
    key, equals, _ = lines[number].partition("=")
    if equals and " " not in key:
        lines[number] = f"{key}={value}"
    elif ": " in lines[number] and path.suffix in (".json", ".yaml"):
        quoted = json.dumps(value) if chance.random() < 0.7 else value
        comma = "," * lines[number].endswith(",")
        lines[number] = f"{lines[number].partition(': ')[0]}: {quoted}{comma}"
    else:
        lines.insert(number, value)
    _remove(path)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass")


def forge_files(files: Sequence[Path], chance: Random, mark: Path, outside: Path) -> list[str]:
    """Damage one to three of the files, and return their names."""
    chosen = chance.sample(list(files), min(len(files), chance.choice((1, 1, 2, 3))))
    for path in chosen:
        if chance.random() < 0.65:
            edit_lines(path, chance, mark, outside)
        else:
            replace_file(path, chance, outside)
    return [path.name for path in chosen]


# ---- what an attacker hands over


def text_files(folder: Path, *skipped: str) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    inside = (path for path in files if path.suffix in TEXT_SUFFIXES and path.stat().st_size < 1_000_000)
    return sorted(path for path in inside if path.relative_to(folder).parts[0] not in skipped)


def forge_run(run: Path, chance: Random, mark: Path, outside: Path) -> list[str]:
    """Forge state, exit codes, metrics and names in a run folder.

    The copy of the artifact stays unchanged, because it is what the trial runs.
    """
    if chance.random() < 0.3:
        parent = run / chance.choice(
            ("artifact", "state", "exit", "exit/0", "starts", "control", "checkpoints", "metrics")
        )
        parent.mkdir(parents=True, exist_ok=True)
        parent.chmod(0o755)
        name = chance.choice(("", "node_", "job_", "rank_", "step_")) + file_name(chance, mark)
        (parent / name).mkdir() if chance.random() < 0.6 else (parent / name).write_text(text(chance, mark, outside))
        return [f"{parent.name}/{name}"]
    return forge_files(text_files(run, "artifact", "code"), chance, mark, outside)


def forge_artifact(artifact: Path, chance: Random, mark: Path, outside: Path) -> list[str]:
    """Forge any of an artifact's files, including scripts.

    Scripts are included because nothing in an artifact may run before the artifact is started.
    """
    machine = text_files(artifact / ".jobc")
    files = machine if chance.random() < 0.6 else text_files(artifact)
    return forge_files(files, chance, mark, outside)


def forge_metrics(run: Path, chance: Random, mark: Path, outside: Path) -> list[str]:
    path = run / "metrics" / "rank_00.jsonl"
    if chance.random() < 0.3:
        replace_file(path, chance, outside)
        return ["replaced"]
    values: list[object] = [text(chance, mark, outside), [[]], {"a": {"b": []}}, 10**400, -1, None, True, "\x1b[2J"]
    names = (
        "step",
        "loss",
        "attempt",
        "rank",
        "time",
        "tokens_per_s",
        "val_loss",
        "step_time_s",
        chance.choice(commands(mark)),
    )
    rows = [
        {name: chance.choice(values) for name in chance.sample(names, 4)} for _ in range(chance.choice((1, 5, 200)))
    ]
    lines = [json.dumps(row) for row in rows] + chance.choice(([], ["{"], ["[" * 20_000], ["NaN"], ["{}" * 1000]))
    with path.open("a", encoding="utf-8", errors="surrogatepass") as file:
        file.write("\n".join(lines) + "\n")
    return ["appended"]


class Exploit:
    """An object that runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def forge_checkpoint(run: Path, chance: Random, mark: Path, outside: Path) -> list[str]:
    """Forge a checkpoint with matching hashes: pickles that run a command, manifests of other files, links out of the
    folder.
    """
    folders = sorted((run / "checkpoints").glob("step_*"))
    folder = chance.choice(folders)
    name = chance.choice(("weights.pt", "optimizer.pt", "rng.pt", "state.json"))
    how = chance.choice(("pickle", "manifest", "file", "names", "best"))
    if how == "pickle":
        (folder / name).write_bytes(pickle.dumps(Exploit(mark)))
        _seal(folder, {})
    elif how == "names":
        _seal(
            folder, {f"../../../{outside.name}": outside, str(outside): outside, chance.choice(commands(mark)): outside}
        )
    elif how == "best":
        link = run / "checkpoints" / "best"
        _remove(link)
        link.symlink_to(chance.choice((str(outside.parent), "../../../..", f"$(touch {mark})", "best")))
    else:
        target = folder / ("MANIFEST.json" if how == "manifest" else name)
        (edit_lines if how == "manifest" else lambda *a: replace_file(a[0], a[1], a[3]))(target, chance, mark, outside)
        if how == "file" and chance.random() < 0.5:
            _seal(folder, {})
    return [how, folder.name, name]


def _seal(folder: Path, more: dict[str, Path]) -> None:
    """Rewrite the manifest so that every hash in it matches the files."""
    path = folder / "MANIFEST.json"
    tree = json.loads(path.read_text())
    files = {name: folder / name for name in tree["files"]}
    regular = {
        name: file for name, file in {**files, **more}.items() if file.is_file() and file.stat().st_size < SPARSE_BYTES
    }
    tree["files"] = {
        name: {"size": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
        for name, file in regular.items()
        if not file.is_symlink() or file.resolve() != Path("/dev/zero")
    }
    del tree["manifest_sha256"]
    tree["manifest_sha256"] = hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(tree, indent=2) + "\n")
