"""A compiled artifact's source map: line -> plan keys -> spec keys -> the position where each of them was written.

The source map exists only in memory. Compiles are reproducible, so `jobc why` compiles again instead of reading a
record.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.origin import Origin
from .artifact import Artifact

DIGEST = "digest"  # plan key of Render.with_digest(); it has no spec keys, or else every key would list these lines
SEAL = "seal"  # template of the job.json lines that record the whole job
PACKED = "packed"  # template of the lines that contain jobctl, compressed
DIGEST_RULE = "computed from the whole plan: changing almost any key changes this value"


class SpecValue(NamedTuple):
    """One spec value.

    value: canonical text, or None for null.
    origin: its position.
    via: the interpolation that it was resolved from, or "".
    """

    value: Any
    origin: Origin | None
    via: str = ""

    @property
    def is_set_only_by_jobc(self) -> bool:
        """Return whether only jobc's own files set the value."""
        return self.origin is None or self.origin.root == "jobc"

    @property
    def is_set_by_job_or_experiment(self) -> bool:
        """Return whether the job or its experiment set the value. The experiment may be one of jobc's own."""
        return not self.is_set_only_by_jobc or (
            self.origin is not None and self.origin.path.startswith("conf/experiment/")
        )


@dataclass(frozen=True)
class SourceMap:
    """The origin of every line in an artifact.

    files: path -> one (keys, template) per line.
    table: plan key -> spec keys.
    chosen: path -> plan keys that decide whether the file is emitted, or which version of it, if there are any.
    rules: plan key -> description of how it was derived, unless it is a copy.
    options: config group -> (its option, position of the choice, which is None if a defaults list chose it).
    """

    files: Mapping[str, tuple[tuple[tuple[str, ...], str], ...]]
    table: Mapping[str, tuple[str, ...]]
    spec: Mapping[str, SpecValue]
    chosen: Mapping[str, tuple[str, ...]]
    rules: Mapping[str, str]
    options: Mapping[str, tuple[str, Origin | None]]

    def spec_keys(self, plan_keys: Iterable[str]) -> tuple[str, ...]:
        """Return the spec leaves that the plan keys depend on. The key of a section stands for every leaf in it."""
        leaves: dict[str, None] = {}
        for key in plan_keys:
            for spec_key in self._spec_keys(key):
                leaves.update(dict.fromkeys(self._leaves_of_key(spec_key)))
        return tuple(leaves)

    def expand_interpolated_keys(self, spec_keys: Iterable[str]) -> tuple[str, ...]:
        """Return the keys, and those that they interpolate, such as site.nodes for `${site.nodes}`."""
        remaining = list(spec_keys)
        sources: dict[str, None] = {}
        while remaining:
            key = remaining.pop(0)
            if key not in sources:
                sources[key] = None
                written = self.spec[key].via if key in self.spec else ""
                remaining += [source for source in re.findall(r"\$\{([\w.]+)\}", written) if source in self.spec]
        return tuple(sources)

    def _leaves_of_key(self, key: str) -> list[str]:
        """Return the recorded leaf that is or contains `key` (a list is one leaf), or else all leaves below `key`."""
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
