"""jobc verify --equivalence: what each rank gets, read back from the emitted files, against the plan and each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..compare import PLAN
from ..diagnostics import CompileError, Diagnostic
from ..directory import describe, read_manifest, text_of, verify
from ..equivalence.check import ENGINE_SAYS, Checked, beside, check
from . import DIAGNOSTICS, OK, report
from .inspect import no_artifact, no_option, usage


def equivalence_command(words: Sequence[str], for_machines: bool) -> int:
    if option := next((word for word in words if word.startswith("-")), None):
        raise no_option("verify --equivalence", option, "it recompiles nothing, and has --format json")
    if not words:
        raise usage("verify", "DIR", "jobc verify --equivalence artifacts/hello/local artifacts/hello/slurm")
    checked = [(word, check(_files(Path(word)), thorough=True)) for word in words]
    first, *others = checked
    between = [(word, beside(first[1], other)) for word, other in others]
    if for_machines:
        print(json.dumps(_document(checked, between), indent=2, ensure_ascii=False))
    else:
        _tell(checked, between)
    differs = any(one.differences for _, one in checked) or any(differences for _, differences in between)
    return DIAGNOSTICS if differs else OK


def _tell(checked: Sequence[tuple[str, Checked]], between: Sequence[tuple[str, Sequence[str]]]) -> None:
    hints = {word: _hint(word) for word, one in checked if one.differences}
    found = [
        Diagnostic("JC5033", f"{word}: {difference}", "the emitted files were read back", hints[word])
        for word, one in checked
        for difference in one.differences
    ]
    first = checked[0][0]
    for word, differences in between:
        because = f"the ranks of {first} and {word} were put side by side"
        hint = f"jobc diff {first} {word} shows whether they were compiled as one job"
        found += [Diagnostic("JC5034", text, because, hint) for text in differences]
    report(found)
    for word, one in checked:
        print("\n".join(_text(word, one)))
    if between:
        print(f"between them\n{_waivers(ENGINE_SAYS)}")


def _document(checked: Sequence[tuple[str, Checked]], between: Sequence[tuple[str, Sequence[str]]]) -> dict[str, Any]:
    """The same for machines; `between` has the first directory beside each of the others."""
    directories = [
        {
            "directory": word,
            "backend": one.name,
            "ranks": len(one.ranks),
            "world_size": one.world_size,
            "compared": one.compared,
            "differences": one.differences,
            "waived": dict(one.waived),
        }
        for word, one in checked
    ]
    others = [{"directory": word, "differences": list(differences)} for word, differences in between]
    return {"directories": directories, "between": others, "waived_between": dict(ENGINE_SAYS) if others else {}}


def _hint(word: str) -> str:
    edits = verify(Path(word))
    if not edits:
        return "no file was edited, so this is a bug of the backend: report it with the command line"
    return f"jobc verify {word} tells how to undo what was edited by hand: {', '.join(map(describe, edits))}"


def _files(folder: Path) -> dict[str, str]:
    """path -> text. CompileError JC5004, JC5009."""
    if not (folder / ".jobc/manifest.json").is_file():
        raise no_artifact(folder, "jobc verify --equivalence")
    paths = read_manifest(folder)["files"]
    files = {path: text_of(folder / path) for path in paths if (folder / path).is_file()}
    if PLAN not in files:
        because = "it has no plan: it starts the points of a sweep, or was made by an older jobc"
        hint = "give the directory of one point, or compile it again"
        if PLAN in paths:
            because = f"{PLAN} is missing, which jobc wrote"
            hint = f"jobc verify {folder} tells the command that writes it anew"
        raise CompileError([Diagnostic("JC5009", f"{folder} cannot be compared with its plan", because, hint)])
    return files


def _text(word: str, one: Checked) -> list[str]:
    count, ranks = len(one.differences), len(one.ranks)
    verdict = f"{count} difference{'s' * (count > 1)}" if count else f"{len(one.compared)} facts as in the plan"
    read = f"{ranks} of {one.world_size} ranks" if ranks < one.world_size else f"{ranks} ranks"
    lines = [f"{word}: {read} read back, {verdict}"]
    if count and not ranks:
        lines = [f"{word}: {verdict}; they could not be read to the end, so the rest was not compared"]
    return [*lines, "  not compared", _waivers(one.waived)] if one.waived else lines


def _waivers(waived: Mapping[str, str]) -> str:
    """A line for each reason, with all that it is the reason for."""
    reasons: dict[str, list[str]] = {}
    for key, why in waived.items():
        reasons.setdefault(why, []).append(key)
    return "\n".join(f"    {', '.join(keys)}\n      {why}" for why, keys in reasons.items())
