"""jobc verify --equivalence: what each rank gets, read back from the emitted files, against the plan and each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..compare import PLAN
from ..diagnostics import CompileError, Diagnostic
from ..directory import read_manifest
from ..equivalence.check import ENGINE_SAYS, Checked, beside, check
from . import DIAGNOSTICS, OK, report
from .inspect import no_artifact, no_option, usage


def equivalence_command(words: Sequence[str]) -> int:
    if option := next((word for word in words if word.startswith("-")), None):
        raise no_option("verify --equivalence", option, "it recompiles nothing, and prints for people")
    if not words:
        raise usage("verify", "DIR", "jobc verify --equivalence artifacts/hello/local artifacts/hello/slurm")
    checked = [(word, check(_files(Path(word)), thorough=True)) for word in words]
    found = [
        Diagnostic("JC5033", f"{word}: {difference}", "the emitted files were read back", _hint(word))
        for word, one in checked
        for difference in one.differences
    ]
    first, *others = checked
    for word, other in others:
        because = f"the ranks of {first[0]} and {word} were put side by side"
        hint = f"jobc diff {first[0]} {word} shows whether they were compiled as one job"
        found += [Diagnostic("JC5034", text, because, hint) for text in beside(first[1], other)]
    report(found)
    for word, one in checked:
        print("\n".join(_text(word, one)))
    if others:
        print(f"between them\n{_waivers(ENGINE_SAYS)}")
    return DIAGNOSTICS if found else OK


def _hint(word: str) -> str:
    return f"jobc verify {word} tells whether a file was edited; if none was, this is a bug of the backend"


def _files(folder: Path) -> dict[str, str]:
    """path -> text, without lib/. CompileError JC5004, JC5009."""
    if not (folder / ".jobc/manifest.json").is_file():
        raise no_artifact(folder, "jobc verify --equivalence")
    paths = [path for path in read_manifest(folder)["files"] if not path.startswith("lib/")]
    files = {p: (folder / p).read_text(encoding="utf-8", errors="replace") for p in paths if (folder / p).is_file()}
    if PLAN not in files:
        because = "it has no plan: it starts the points of a sweep, or was made by an older jobc"
        hint = "give the directory of one point, or compile it again"
        raise CompileError([Diagnostic("JC5009", f"{folder} cannot be compared with its plan", because, hint)])
    return files


def _text(word: str, one: Checked) -> list[str]:
    verdict = f"{len(one.compared)} facts as in the plan" if not one.differences else f"{len(one.differences)} differ"
    lines = [f"{word}: {len(one.ranks)} ranks read back, {verdict}"]
    return [*lines, "  not compared", _waivers(one.waived)] if one.waived else lines


def _waivers(waived: Mapping[str, str]) -> str:
    """A line for each reason, with all that it is the reason for."""
    reasons: dict[str, list[str]] = {}
    for key, why in waived.items():
        reasons.setdefault(why, []).append(key)
    return "\n".join(f"    {', '.join(keys)}\n      {why}" for why, keys in reasons.items())
