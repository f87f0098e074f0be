"""jobc verify --equivalence: what each rank gets, read back from the emitted files, against the plan and each other.

Each directory is compared with its plan, and with the first that can be read.
"""

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
from .verify import Refused, readable


def equivalence_command(words: Sequence[str], for_machines: bool) -> int:
    if option := next((word for word in words if word.startswith("-")), None):
        raise no_option("verify --equivalence", option, "it recompiles nothing, and has --format json")
    if not words:
        raise usage("verify", "DIR", "jobc verify --equivalence artifacts/hello/local artifacts/hello/slurm")
    looked_at = [(word, readable(word, _checked)) for word in words]
    checked = [(word, one) for word, one in looked_at if isinstance(one, Checked)]
    refused = [one for _, one in looked_at if isinstance(one, Refused)]
    between = [(word, beside(checked[0][1], other)) for word, other in checked[1:]]
    if for_machines:
        documents = [_document(word, one) if isinstance(one, Checked) else one.document() for word, one in looked_at]
        others = [{"directory": word, "differences": list(differences)} for word, differences in between]
        waived = dict(ENGINE_SAYS) if others else {}
        tree = {"directories": documents, "between": others, "waived_between": waived}
        print(json.dumps(tree, indent=2, ensure_ascii=False))
    else:
        _tell(checked, between, refused)
    differs = refused or any(one.differences for _, one in checked) or any(differences for _, differences in between)
    return DIAGNOSTICS if differs else OK


def _checked(word: str) -> Checked:
    return check(_files(Path(word)), thorough=True)


def _tell(
    checked: Sequence[tuple[str, Checked]], between: Sequence[tuple[str, Sequence[str]]], refused: Sequence[Refused]
) -> None:
    hints = {word: _hint(word) for word, one in checked if one.differences}
    found = [
        Diagnostic("JC5033", f"{word}: {difference}", "the emitted files were read back", hints[word])
        for word, one in checked
        for difference in one.differences
    ]
    for word, differences in between:
        first = checked[0][0]
        because = f"the ranks of {first} and {word} were put side by side"
        hint = f"jobc diff {first} {word} shows whether they were compiled as one job"
        found += [Diagnostic("JC5034", text, because, hint) for text in differences]
    report([*(diagnostic for one in refused for diagnostic in one.diagnostics), *found])
    for word, one in checked:
        print("\n".join(_text(word, one)))
    if between:
        print(f"between them\n{_waivers(ENGINE_SAYS)}")


def _document(word: str, one: Checked) -> dict[str, Any]:
    """The same for machines, of one directory."""
    return {
        "directory": word,
        "backend": one.name,
        "ranks": len(one.ranks),
        "world_size": one.world_size,
        "compared": one.compared,
        "differences": one.differences,
        "waived": dict(one.waived),
    }


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
