"""Measure the precision of `jobc why`: change each spec leaf; the changed lines are those attributed to it.

Recall must be 100 %, because a changed line that `why` does not attribute would mislead by omission. Precision must be
at least 91 %: an attributed line that does not change is noise (`global = 32`, whether accumulation is 1 by default or
explicitly). A digest of the plan, such as the end of an object's name on Kubernetes, counts as a single word, because
every key changes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, get_args, get_origin

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.emit.artifact import Artifact
from jobc.compiler.emit.source_map import DIGEST, PACKED, SEAL
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest
from jobc.compiler.spec.job_spec import JobSpec
from jobc.compiler.spec.type_hints import accepted_words, hint_value_type, type_of_key

from .campaign import Campaign, Line, expect

# Noise is mostly in job.json: a value that another key decides only in other jobs, such as `"gpu_type": null`.
PRECISION = 0.91
# Lower limits: in these jobs, every line of a text or a list has the keys of the whole text or list. On Kubernetes,
# storage.root decides storage.run=auto.
LEAST = {"kubernetes": 0.85, "own_command": 0.85, "skypilot": 0.75}

COMMON = ("name=base", "procs=2", "time=1h", "env.A=1")
SHARED = "mounts=[{kind: claim, source: shared, target: /shared, read_only: false}]"

BASES = {
    "trainer": (*COMMON, "cpus=4", "env.B=two words", "storage.data=/data"),
    "own_command": ("name=base", "procs=2", "command=[prog,--lr,'1']", "secrets.T=env:T", "python=venv", "keep_runs=3"),
    "slurm": (*COMMON, "backend=slurm", "cpus=4"),
    "ssh": (*COMMON, "backend=ssh", "cpus=4", "hosts=[n1,n2]", "nodes=1"),
    "pdsh": (*COMMON, "backend=pdsh", "cpus=4", "hosts=[n1,n2]", "nodes=1"),
    "kubernetes": (*COMMON, "backend=kubernetes", "image=i", "storage.root=/shared/runs", SHARED),
    "skypilot": (*COMMON, "backend=skypilot", "cpus=4", "nodes=1"),
}


@dataclass
class Measured:
    """Result of changing leaves.

    leaves: the keys that could be changed
    exact: the (leaf, line) pairs that were changed and attributed
    missed: those changed but not attributed, as text `key: path:line …`
    noise: those attributed but not changed, as the same kind of text
    """

    leaves: list[str] = field(default_factory=list)
    exact: int = 0
    missed: list[str] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.exact / (self.exact + len(self.noise))


def other_values(key: str, now: Any) -> list[str]:
    """Return override values that differ from `now`, as text.

    They are all of the key's words if it has any, otherwise one value if possible.
    """
    words = [word for word in accepted_words(type_of_key(JobSpec, key)) if word != str(now).lower()]
    value = other_value(key, now)
    return words or ([] if value is None else [value])


def other_value(key: str, now: Any) -> str | None:
    """Return an override value that differs from `now`, as text, or None if the type has only one value."""
    hint = type_of_key(JobSpec, key)
    if key.startswith(("env.", "labels.")):
        return "other"
    if key.startswith("secrets."):
        return "env:OTHER"
    if key == "backend.detach":
        return "true"
    words = [word for word in accepted_words(hint) if word != str(now).lower()]
    if words:
        return words[0]
    if accepted_words(hint):
        return None
    if isinstance(now, list):
        return (
            "["
            + ",".join(str(float(item) / 2) if item.replace(".", "").isdigit() else f"{item}x" for item in now or ["x"])
            + "]"
        )
    scalar = hint_value_type(hint)
    if scalar is None:
        return "[x]" if get_origin(hint) is tuple or any(get_origin(a) is tuple for a in get_args(hint)) else None
    examples = {
        "a duration": "7m",
        "a time limit": "7m",
        "a size": "7GiB",
        "a port": "29511",
        "a host list": "n1,n2",
        "text": "other",
    }
    if scalar.name in examples:
        return examples[scalar.name]
    if scalar.name in ("a name", "a path", "a label"):
        return "other"
    if scalar.name == "a number":
        return str(float(now or 1) / 2 + 0.001)
    return str(int(now or 0) + 2)


def lines_of(compiled: CompiledJob) -> dict[str, list[str]]:
    """Return path -> lines, without jobctl and the seal at the end of job.json.

    In lines that contain a digest according to `why`, the digest is replaced by a word. A comma at the end of a JSON
    line is omitted, because it depends on the next line.
    """
    rows = compiled.source_map.files
    return {a.path: [*_compared(a, rows[a.path])] for a in compiled.artifacts if a.path in rows}


def _compared(artifact: Artifact, rows: Sequence[tuple[tuple[str, ...], str]]) -> Iterator[str]:
    for line, (keys, template) in zip(artifact.text.split("\n")[:-1], rows, strict=True):
        if template not in (SEAL, PACKED):
            line = line.removesuffix(",") if artifact.path.endswith(".json") else line
            yield _undigested(line) if DIGEST in keys else line


def _undigested(line: str) -> str:
    return re.sub(r'"?\b[0-9a-f]{8}\b"?', DIGEST, line)


def attributed(compiled: CompiledJob, path: str, line: int, key: str) -> bool:
    spec_keys = compiled.source_map.spec_keys(compiled.source_map.files[path][line][0])
    return key in compiled.source_map.expand_interpolated_keys(spec_keys)


def chosen(compiled: CompiledJob, path: str, key: str) -> bool:
    """Return whether this key changes the file as a whole, so that `why` names the key at every line."""
    return key in compiled.source_map.spec_keys(compiled.source_map.chosen.get(path, ()))


def variants(base: tuple[str, ...], key: str, value: Any) -> list[CompiledJob]:
    """Return those jobs that compile with `key` changed to other values, including null if that is allowed."""
    words = [*other_values(key, value), *([] if value is None else ["null"])]
    compiled_jobs = []
    for word in words:
        try:
            compiled_jobs.append(compile_job(CompileRequest((*base, f"{key}={word}"))))
        except CompileError:
            continue  # refused: there is no artifact to explain
    return compiled_jobs


def measure(base: tuple[str, ...], taken: Callable[[str], bool] = lambda key: True) -> Measured:
    """Change each selected leaf of the job `base`, and compare the changes with what `why` attributes."""
    before = compile_job(CompileRequest(base))
    measured = Measured()
    for key, value in before.source_map.spec.items():
        if not taken(key):
            continue
        afters = variants(base, key, value.value) if key != "backend" else []
        if afters:
            measured.leaves.append(key)
            for path, old in lines_of(before).items():
                compare(measured, key, path, old, before, afters)
    return measured


def compare(
    measured: Measured, key: str, path: str, old: list[str], before: CompiledJob, afters: Sequence[CompiledJob]
) -> None:
    """Add one file's result for one leaf to `measured`. A changed line counts on both sides of the change."""
    changed: set[int] = set()
    is_chosen = chosen(before, path, key)
    is_text = [bool(line.strip()) for line in old]  # of two empty lines, it is impossible to say which one was added
    for after in afters:
        now = lines_of(after).get(path, [])
        for kind, first, last, new_first, new_last in SequenceMatcher(None, old, now, False).get_opcodes():
            if kind != "equal":
                changed.update(n for n in range(first, last) if is_text[n])
                added = [n for n in range(new_first, new_last) if now[n].strip()]
                lost = [n for n in added if not attributed(after, path, n, key)]
                if not is_chosen:
                    measured.missed += [f"{key}: {path}:+{n + 1} {now[n]}" for n in lost]
    owned = {line for line in range(len(old)) if is_text[line] and attributed(before, path, line, key)}
    if is_chosen:
        owned |= changed
    measured.missed += [f"{key}: {path}:{line + 1} {old[line]}" for line in sorted(changed - owned)]
    measured.noise += [f"{key}: {path}:{line + 1} {old[line]}" for line in sorted(owned - changed)]
    measured.exact += len(changed & owned)


def run(number: int, folder: Path) -> dict[str, Any]:
    kind = list(BASES)[number % len(BASES)]
    measured = measure(BASES[kind])
    counts = {
        "kind": kind, "leaves": len(measured.leaves), "exact": measured.exact, "missed": len(measured.missed),
        "noise": len(measured.noise),
    }  # fmt: skip
    expect(not measured.missed, f"not attributed: {'; '.join(measured.missed[:5])}", **counts)
    expect(measured.precision >= LEAST.get(kind, PRECISION), f"precision {measured.precision:.3f}", **counts)
    return counts


def figure(lines: Sequence[Line]) -> str:
    leaves, exact, missed, noise = (
        sum(line.get(k, 0) for line in lines) for k in ("leaves", "exact", "missed", "noise")
    )
    if not exact:
        return "did not finish"
    recall, precision = exact / (exact + missed), exact / (exact + noise)
    return f"recall {100 * recall:.1f} %, precision {100 * precision:.1f} %: {leaves} leaves, {exact} lines"


CAMPAIGN = Campaign(
    name="why",
    claim=(
        "`jobc why` lists every line that a key affects (recall 100 %), and few others (precision at least"
        f" {100 * PRECISION:.0f} %; on Kubernetes and for a custom command {100 * LEAST['kubernetes']:.0f} %, on"
        f" SkyPilot {100 * LEAST['skypilot']:.0f} %)."
    ),
    trial=(
        "takes one job of one backend, or with a custom command, and changes every leaf of its spec in turn to"
        " other values and to null. The changed lines of all files are compared with those attributed to the leaf."
        " Not compared are empty lines, the records and checksums at the end of .jobc/job.json, and digests of the"
        " plan (the name of a Kubernetes object contains one): nearly every key changes them, and `jobc why`"
        " reports this."
    ),
    count=len(BASES),
    run=run,
    figure=figure,
)
