"""Set documented keys to random values of their types, and follow the hints until the job compiles."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from jobc.compiler.cli import main
from jobc.tests.compiler import hints

from .campaign import Campaign, Line, expect, k_of_n

SPECS = 15  # specs per trial
MOST_ROUNDS = 14  # maximum number of hints followed for one spec
KEYS = Path(__file__).parents[1] / "docs" / "keys.md"
HOSTS = "hosts=[a,b,c,d,e,f,g,h]"
BACKENDS = {
    "local": [],
    "slurm": [],
    "accelerate": [],
    "ssh": [HOSTS],
    "pdsh": [HOSTS],
    "kubernetes": ["image=x:1"],
    "skypilot": ["gpu_type=H100"],
}
VALUES = {  # words in a key's documented type -> values that fit it, and some that do not
    "null": ["null"],
    "positive integer": ["1", "2", "4", "8", "0", "-1", "two"],
    "integer": ["0", "1", "2", "8", "10", "500", "-1", "1.5", "x", "1e3"],
    "number": ["0", "0.1", "1", "2.5", "-1", "x"],
    "size": ["16GiB", "512MiB", "1TB", "200G", "12", "big"],
    "time limit": ["12h", "30m", "1-12:00:00", "90", "00:30:00", "soon"],
    "duration": ["60s", "5m", "1h", "0s", "7", "later"],
    "host list": ["[a,b]", "node[1-4]", "n1", "[a,a]", "@nowhere"],
    "a list": ["[a,b]", "[]", "x", "[1,2]", "[{a: b}]", "'module load cuda'"],
    "mapping": ["{}", "{A: b}", "x"],
    "text": ["abc", "'a b'", "/data/x", "2", "H100", "a:b", "x" * 80],
    "name": ["abc", "'a b'", "x" * 80],
    "path": ["/data/x", "data", "~/x"],
    "port": ["0", "29500", "70000", "80"],
}


class Key(NamedTuple):
    name: str
    type: str


def run(number: int, folder: Path) -> dict[str, Any]:
    followed = 0
    with _inside(folder):
        for spec in range(SPECS):
            followed += _follow(_drawn(Random(number * SPECS + spec)))
    return {"seed": number, "specs": SPECS, "hints": followed}


def _follow(words: list[str]) -> int:
    """Check a spec, and follow its hints until no errors are left. Return the number of hints followed."""
    first, followed = shlex.join(words), 0
    for _ in range(MOST_ROUNDS):
        errors = _errors(words)
        if not errors:
            return followed
        error = errors[0]
        new = hints.words_of(error["hint"])
        if not new or "jobc" in new or error["code"] in hints.NOT_ALL:
            words = _without(words, error)
            continue
        followed += 1
        blamed = error["place"]["path"] if error["place"] and error["place"]["root"] == "command line" else ""
        for mended in (hints.mended(words, new), hints.mended(words, new, blamed)):
            if _identity(error) not in map(_identity, _errors(mended)):
                break
        else:
            expect(False, f"{shlex.join(words)}: this hint of {error['code']} does not help: {error['hint']}")
        words = mended
    expect(False, f"{first}: after {MOST_ROUNDS} rounds it still does not compile: {shlex.join(words)}")
    return followed


def _errors(words: list[str]) -> list[dict[str, Any]]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["check", "--format", "json", *words])
    expect(status in (0, 1), f"{shlex.join(words)}: exit code {status}: {out.getvalue()[:500]}{err.getvalue()[:500]}")
    return [d for d in json.loads(out.getvalue())["diagnostics"] if d["severity"] == "error"]


def _identity(diagnostic: dict[str, Any]) -> tuple[str, str, str]:
    return diagnostic["code"], diagnostic["key"], diagnostic["title"]


def _without(words: list[str], error: dict[str, Any]) -> list[str]:
    """Remove the override that caused an error whose hint is only prose."""
    blamed = error["place"]["path"] if error["place"] else ""
    at = words.index("--") if "--" in words else len(words)
    kept = [w for w in words[:at] if w != blamed and not _overlap(hints.key_of(w), error["key"])]
    expect(len(kept) < at, f"{shlex.join(words)}: nothing to change for {error['code']}: {error['hint']}")
    return [*kept, *words[at:]]


def _overlap(key: str, other: str) -> bool:
    return bool(other) and (f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}."))


def _drawn(random: Random) -> list[str]:
    backend = random.choice(sorted(BACKENDS))
    words = [f"backend={backend}", *BACKENDS[backend]]
    for _ in range(random.choice((1, 2, 2, 3, 4))):
        key = random.choice(_keys())
        name, value = key.name, random.choice(_values(key.type))
        if key.type == "a mapping" and random.random() < 0.7:
            name, value = f"{name}.A", random.choice(("b", "1", "'x y'"))
        words.append(f"{name}={value}")
    return [*words, "--", "train.py"] if random.random() < 0.5 else words


@cache
def _keys() -> list[Key]:
    """Return the documented keys that every backend has."""
    rows = re.findall(r"(?m)^\| `([^`]+)` \| (.*?) \| .*? \| ", KEYS.read_text(encoding="utf-8"))
    return [Key(name, kind) for name, kind in rows if not name.startswith("backend.")]


def _values(kind: str) -> list[str]:
    if kind.startswith("`"):
        return [*re.findall(r"`([^`]+)`", kind), "nope"]
    found = [value for words, values in VALUES.items() if words in kind for value in values]
    return found or ["abc", "1", "null", "[]"]


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").touch()
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _figure(lines: Sequence[Line]) -> str:
    specs, followed = (sum(line.get(key, 0) for line in lines) for key in ("specs", "hints"))
    return f"{k_of_n(lines)}, {specs} specs, {followed} hints followed"


CAMPAIGN = Campaign(
    name="random_specs",
    claim="Random values of documented keys compile, or are rejected with hints that help.",
    trial=(
        f"draws {SPECS} specs by seed: a backend, and one to four documented keys with values that may or may not"
        " fit their types. No compile may fail with an internal error. The first error's hint is followed, and must"
        " remove that error, until the job compiles. If a hint is prose, the override that caused the error is"
        " removed."
    ),
    count=20,
    run=run,
    figure=_figure,
)
