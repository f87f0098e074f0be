"""Expand a sweep such as `nodes=2,4` into points. Each has its overrides, and a name for folders and messages.

In:  the words on a command line; the diagnostics of each point.
Out: SweepPoints, in which the last word varies fastest; the diagnostics, each with its point.
"""

import itertools
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.diagnostic import CompileError, Diagnostic, Severity
from ..diagnostics.origin import AFTER_DASHES, COMMAND_LINE, Origin
from ..spec import secret_scan
from .overrides import Override, format_command_override, override_for_key, parse_sweep, strip_quotes_around_numbers


@dataclass(frozen=True)
class SweepPoint:
    """One point of a sweep.

    overrides: all overrides of this point, including the one that sets its label.
    words: the words that compile only this point.
    varied: the overrides that differ between points, or () if there is only one point.
    """

    overrides: tuple[Override, ...]
    words: tuple[str, ...]
    varied: tuple[Override, ...]

    @property
    def varied_words(self) -> list[str]:
        """Return the words that select this point, with its label."""
        selecting = {override.canonical for override in self.varied}
        return [
            word
            for override, word in zip(self.overrides, self.words, strict=True)
            if override.canonical in selecting or override.key == "point"
        ]

    def format_label(self, private_keys: Collection[str] = ()) -> str:
        """Return `backend=slurm nodes=8` for people, with `…` for a value that may be a secret."""
        return " ".join(_format_for_people(override, private_keys) for override in self.varied)


def sweep_points(
    words: Sequence[str], open_keys: Sequence[str], loader: Any, omitted_keys: Sequence[str] | None
) -> Iterator[SweepPoint]:
    """Yield a sweep's points. Raises like parse_sweep(), and JC1112 for a key that is swept and set again.

    omitted_keys: keys that the label omits, or None for no label. The other parameters are as in parse_sweep().
    """
    points = parse_sweep(words, open_keys, loader)
    varied = [i for i, first in enumerate(points[0]) if any(p[i].canonical != first.canonical for p in points)]
    if refused := list(_find_conflicting_keys(points, varied)):
        raise CompileError(refused)
    for point in points:
        label = (
            ""
            if omitted_keys is None
            else "+".join(_folder_name_part(point[i]) for i in varied if point[i].key not in omitted_keys)
        )
        overrides = (*point, *([override_for_key("point", label)] if label else []))
        alone = tuple(
            strip_quotes_around_numbers(o.canonical) if i in varied else o.typed for i, o in enumerate(overrides)
        )
        yield SweepPoint(overrides, alone, tuple(point[i] for i in varied))


def check_unswept_argument(command: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield JC1117 for a list such as 0.1,0.2 after ` -- `, in a sweep that has only one point."""
    for i, word in enumerate(command):
        option, _, value = word.rpartition("=")
        if i and re.fullmatch(r"[\w.+-]+(,[\w.+-]+)+", value):
            before = option or command[i - 1] * command[i - 1].startswith("-")
            name = re.sub(r"\W", "_", before.strip("-") or "argument").upper()
            words = [*command[:i], f"{word.removesuffix(value)}${{env.{name}}}", *command[i + 1 :]]
            title = f"-m compiles a single job: {value} after -- is not swept"
            because = "-m sweeps overrides; the arguments after -- reach the program unchanged"
            hint = f"env.{name}={value} {shlex.quote(format_command_override(words))}, without the words after --"
            yield Diagnostic(
                "JC1117", title, because, hint, Origin(COMMAND_LINE, AFTER_DASHES), "command", Severity.WARNING
            )
            return


def common_label(points: Sequence[SweepPoint], omitted_keys: Collection[str]) -> str:
    """Return the part of the label that these sweep points have in common, or "" if they share no varied override."""
    alternatives = zip(*(point.varied for point in points), strict=True)
    shared = [same[0] for same in alternatives if len({override.canonical for override in same}) == 1]
    return "+".join(_folder_name_part(override) for override in shared if override.key not in omitted_keys)


def _find_conflicting_keys(points: Sequence[Sequence[Override]], varied: Sequence[int]) -> Iterator[Diagnostic]:
    """Yield JC1112 for each word that sets a key that another word sweeps."""
    choices = [set(alternatives) for alternatives in zip(*points, strict=True)] if varied else []
    sets = [set().union(*(override.keys for override in alternatives)) for alternatives in choices]
    for i, j in itertools.combinations(range(len(sets)), 2):
        if i in varied and (common_keys := sets[i] & sets[j]):
            key, swept, later = min(common_keys), _mask_secret(points[0][i].typed), _mask_secret(points[0][j].typed)
            title = f"{key} is swept and then set again"
            because = "the points' names would contain values that the points do not use"
            hint = f"{shlex.quote(swept)} or {shlex.quote(later)}, not both"
            yield Diagnostic("JC1112", title, because, hint, Origin(COMMAND_LINE, later), key)


def with_sweep_point(found: Iterable[Diagnostic], where: str) -> list[Diagnostic]:
    return [replace(d, points=(where,)) if where else d for d in found]


def all_point_diagnostics(diagnostics_of_points: Sequence[tuple[SweepPoint, Sequence[Diagnostic]]]) -> list[Diagnostic]:
    """Return the diagnostics of all points. If one point must redact a value, all points redact it."""
    private_keys = {d.key for _, diagnostics in diagnostics_of_points for d in diagnostics if d.private}
    placed = ((_suggest_host_list(diagnostics, point), point) for point, diagnostics in diagnostics_of_points)
    return [d for diagnostics, point in placed for d in with_sweep_point(diagnostics, point.format_label(private_keys))]


def _suggest_host_list(diagnostics: Iterable[Diagnostic], point: SweepPoint) -> list[Diagnostic]:
    """Return the diagnostics. For `hosts=a,b`, the hint of JC2005 becomes a list instead of a sweep."""
    typed = next((override.typed for override in point.varied if override.key == "hosts"), "")
    if not re.fullmatch(r"hosts=[\w.,@\[\]-]+", typed):
        return list(diagnostics)
    word = shlex.quote(f"hosts=[{typed.partition('=')[2]}]")
    hint = f"{word}, because commas without brackets make each host a separate point"
    return [replace(d, hint=hint) if d.code == "JC2005" else d for d in diagnostics]


def _format_for_people(override: Override, private_keys: Collection[str]) -> str:
    value = override.canonical.partition("=")[2]
    if value[:1] == value[-1:] and value[:1] in ("'", '"'):
        value = value[1:-1]
    name = override.typed.partition("=")[0]
    is_private = any(_is_within(key, override.key) or _is_within(override.key, key) for key in private_keys)
    return f"{name}=…" if is_private else _mask_secret(f"{name}={value}")


def _mask_secret(word: str) -> str:
    """Return the word, or `NAME=…` if it may contain a secret."""
    words = re.split(r"[\s\[\]{},]+", re.sub("[\"']", "", word))
    return (
        f"{word.partition('=')[0]}=…"
        if secret_scan.describe_secret_in_command(words)
        else secret_scan.redact_override(word)
    )


def _is_within(key: str, section: str) -> bool:
    return f"{key}.".startswith(f"{section}.")


def _folder_name_part(override: Override) -> str:
    """Return the override as part of a folder name, such as `nodes=8`.

    The words of a list are joined, as in `command=train.py_--lr_0.1`.
    """
    value = re.sub(r"[^\w.=-]+", "_", override.canonical.partition("=")[2]).strip("_")
    return f"{override.key}={value}"[:60]
