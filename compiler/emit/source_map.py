"""The source map of a compiled artifact: line -> plan keys -> spec keys -> where each was written.

It lives in memory alone: a compile is reproducible, so `jobc why` compiles again instead of reading a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..diagnostics.origin import Origin
from .artifact import Artifact

DIGEST = "digest"  # the plan key of what Render.digested() brings; it has no spec keys, or every key had its lines
DIGEST_RULE = "computed from the whole plan: a change of nearly any key changes it"


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

    @property
    def is_wanted(self) -> bool:
        """A job or a named experiment set it, jobc's own included."""
        return not self.is_default or (self.origin is not None and self.origin.path.startswith("conf/experiment/"))


@dataclass(frozen=True)
class SourceMap:
    """files: path -> one (keys, template) per line; table: plan key -> spec keys;
    chosen: path -> plan keys for which the file is as a whole what it is, where there are any;
    rules: plan key -> description of how it was derived, unless it is a copy;
    options: config group -> its option, and where that was chosen (None: in a defaults list).
    """

    files: Mapping[str, tuple[tuple[tuple[str, ...], str], ...]]
    table: Mapping[str, tuple[str, ...]]
    spec: Mapping[str, SpecValue]
    chosen: Mapping[str, tuple[str, ...]]
    rules: Mapping[str, str]
    options: Mapping[str, tuple[str, Origin | None]]

    def spec_keys(self, plan_keys: Iterable[str]) -> tuple[str, ...]:
        """The spec leaves behind plan keys. A key of a whole section stands for every leaf below it."""
        leaves: dict[str, None] = {}
        for key in plan_keys:
            for spec_key in self._spec_keys(key):
                leaves.update(dict.fromkeys(self._leaves(spec_key)))
        return tuple(leaves)

    def sources(self, spec_keys: Iterable[str]) -> tuple[str, ...]:
        """The keys, and those that they take their values from: `backend.most_nodes` was written `${site.nodes}`."""
        remaining = list(spec_keys)
        sources: dict[str, None] = {}
        while remaining:
            key = remaining.pop(0)
            if key not in sources:
                sources[key] = None
                written = self.spec[key].via if key in self.spec else ""
                remaining += [source for source in re.findall(r"\$\{([\w.]+)\}", written) if source in self.spec]
        return tuple(sources)

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


def build_source_map(
    artifacts: Iterable[Artifact],
    table: Mapping[str, tuple[str, ...]],
    spec: Mapping[str, SpecValue],
    rules: Mapping[str, str],
    options: Mapping[str, tuple[str, Origin | None]],
) -> SourceMap:
    artifacts = tuple(artifacts)
    files = {}
    for artifact in artifacts:
        count = len(artifact.text.split("\n")) - 1 if artifact.text.endswith("\n") else len(artifact.text.split("\n"))
        rows: list[tuple[tuple[str, ...], str]] = [((), "")] * count
        for span in artifact.lines:
            last = min(span.last, count)
            rows[span.first - 1 : last] = [(span.keys, span.template)] * (last - span.first + 1)
        files[artifact.path] = tuple(rows)
    if any(DIGEST in span.keys for artifact in artifacts for span in artifact.lines):
        table, rules = {**table, DIGEST: ()}, {**rules, DIGEST: DIGEST_RULE}
    chosen = {a.path: a.chosen for a in artifacts if a.chosen}
    return SourceMap(files, table, spec, chosen, rules, options)
