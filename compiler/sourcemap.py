"""The source map of an artifact directory: line -> plan keys -> spec keys -> where each was written.

In the directory it is `.jobc/sourcemap.json`; `jobc why` and `jobc verify` read it without composing anything.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .artifact import Artifact
from .text import Origin

SCHEMA = 4
DIGEST = "digest"  # the plan key of what Render.digested() brings; it has no spec keys, or every key had its lines
DIGEST_RULE = "made of the plan as a whole: another value of nearly any key changes it"


@dataclass(frozen=True)
class SpecValue:
    """value: canonical text, None for null; origin: where written; via: the interpolation it was written as, or ""."""

    value: Any
    origin: Origin | None
    via: str = ""

    @property
    def is_default(self) -> bool:
        """Nobody beside jobc's own files set it."""
        return self.origin is None or self.origin.root == "jobc"


@dataclass(frozen=True)
class SourceMap:
    """files: path -> one (keys, template) per line; sums: path -> CRC-32 per line; table: plan key -> spec keys;
    chosen: path -> plan keys for which the file is as a whole what it is, where there are any;
    rules: plan key -> how it was made, in words, where it is no copy;
    options: config group -> its option, and where that was chosen (None: in a defaults list).
    """

    files: Mapping[str, tuple[tuple[tuple[str, ...], str], ...]]
    sums: Mapping[str, tuple[str, ...]]
    table: Mapping[str, tuple[str, ...]]
    spec: Mapping[str, SpecValue]
    chosen: Mapping[str, tuple[str, ...]]
    rules: Mapping[str, str]
    options: Mapping[str, tuple[str, Origin | None]]

    def spec_keys(self, plan_keys: Iterable[str]) -> tuple[str, ...]:
        """The spec leaves behind plan keys. A key of a whole section stands for every leaf below it."""
        found: dict[str, None] = {}
        for key in plan_keys:
            for spec_key in self._spec_keys(key):
                found.update(dict.fromkeys(self._leaves(spec_key)))
        return tuple(found)

    def sources(self, spec_keys: Iterable[str]) -> tuple[str, ...]:
        """The keys, and those that they take their values from: `backend.most_nodes` was written `${site.nodes}`."""
        left = list(spec_keys)
        found: dict[str, None] = {}
        while left:
            key = left.pop(0)
            if key not in found:
                found[key] = None
                written = self.spec[key].via if key in self.spec else ""
                left += [other for other in re.findall(r"\$\{([\w.]+)\}", written) if other in self.spec]
        return tuple(found)

    def _leaves(self, key: str) -> list[str]:
        """The recorded leaf that is `key` or holds it (a list is one leaf), else all leaves below it."""
        holder = key
        while holder not in self.spec and "." in holder:
            holder = holder.rpartition(".")[0]
        return [holder] if holder in self.spec else [leaf for leaf in self.spec if leaf.startswith(f"{key}.")]

    def _spec_keys(self, key: str) -> tuple[str, ...]:
        if key in self.table:
            return self.table[key]
        if key.startswith("spec."):
            return (key.removeprefix("spec."),)
        if key.startswith("options."):
            return (f"backend.{key.removeprefix('options.')}",)
        below = [spec for plan, specs in self.table.items() if plan.startswith(f"{key}.") for spec in specs]
        if below or "." not in key:
            return tuple(dict.fromkeys(below))
        return self._spec_keys(key.rpartition(".")[0])


def line_sum(line: str) -> str:
    """CRC-32 of one line without its end; enough to see which lines an edit touched."""
    return f"{zlib.crc32(line.encode('utf-8', 'surrogatepass')):08x}"


def build(
    artifacts: Iterable[Artifact],
    table: Mapping[str, tuple[str, ...]],
    spec: Mapping[str, SpecValue],
    rules: Mapping[str, str],
    options: Mapping[str, tuple[str, Origin | None]],
) -> SourceMap:
    artifacts = tuple(artifacts)
    files, sums = {}, {}
    for artifact in artifacts:
        count = len(artifact.text.split("\n")) - 1 if artifact.text.endswith("\n") else len(artifact.text.split("\n"))
        rows: list[tuple[tuple[str, ...], str]] = [((), "")] * count
        for span in artifact.lines:
            last = min(span.last, count)
            rows[span.first - 1 : last] = [(span.keys, span.template)] * (last - span.first + 1)
        files[artifact.path] = tuple(rows)
        sums[artifact.path] = tuple(line_sum(line) for line in artifact.text.split("\n")[:count])
    if any(DIGEST in span.keys for artifact in artifacts for span in artifact.lines):
        table, rules = {**table, DIGEST: ()}, {**rules, DIGEST: DIGEST_RULE}
    chosen = {a.path: a.chosen for a in artifacts if a.chosen}
    return SourceMap(files, sums, table, spec, chosen, rules, options)


def to_json(source_map: SourceMap) -> str:
    """One line per file and key, so that it stays readable and diffs well."""
    keys = sorted({key for rows in source_map.files.values() for found, _ in rows for key in found})
    index = {key: i for i, key in enumerate(keys)}

    def origin(place: Origin | None) -> Any:
        return None if place is None else [place.root, place.path, place.line, place.column]

    sections: dict[str, dict[str, Any]] = {
        "files": {
            path: [
                [[index[key] for key in keys], template, len(list(same))] for (keys, template), same in groupby(rows)
            ]
            for path, rows in sorted(source_map.files.items())
        },
        "sums": {p: "".join(found) for p, found in sorted(source_map.sums.items())},
        "plan": {key: list(found) for key, found in sorted(source_map.table.items())},
        "spec": {key: [v.value, origin(v.origin), v.via] for key, v in sorted(source_map.spec.items())},
        "chosen": {path: list(found) for path, found in sorted(source_map.chosen.items())},
        "rules": dict(sorted(source_map.rules.items())),
        "options": {group: [option, origin(by)] for group, (option, by) in sorted(source_map.options.items())},
    }
    lines = [f'{{"schema": {SCHEMA},', f'"keys": {json.dumps(keys, ensure_ascii=False)},']
    for name, section in sections.items():
        rows = ",\n".join(f"  {_json(key)}: {_json(value)}" for key, value in section.items())
        lines.append(f'"{name}": {{\n{rows}\n}}' + ("," if name != "options" else ""))
    return "\n".join(lines) + "\n}\n"


def from_json(text: str) -> SourceMap:
    """Raises ValueError or KeyError for a text that to_json() did not write."""
    tree = json.loads(text)
    if tree["schema"] != SCHEMA:
        raise ValueError(f"source map of schema {tree['schema']}, this jobc reads {SCHEMA}")
    keys = tree["keys"]

    def origin(place: Any) -> Origin | None:
        return Origin(*place) if place else None

    return SourceMap(
        {
            path: tuple((tuple(keys[i] for i in ids), template) for ids, template, count in rows for _ in range(count))
            for path, rows in tree["files"].items()
        },
        {p: tuple(sums[i : i + 8] for i in range(0, len(sums), 8)) for p, sums in tree["sums"].items()},
        {key: tuple(found) for key, found in tree["plan"].items()},
        {k: SpecValue(v, origin(place), via) for k, (v, place, via) in tree["spec"].items()},
        {path: tuple(found) for path, found in tree["chosen"].items()},
        tree["rules"],
        {group: (option, origin(by)) for group, (option, by) in tree["options"].items()},
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
