"""jobc verify: whether an artifact directory is what jobc wrote, and still what its inputs give.

jobc verify DIR …    files edited by hand, with their lines; inputs that have changed since; the digest to quote
`--config-dir FOLDER` as it was compiled with. Exit status 1 when a file or the inputs differ.
jobc verify --equivalence DIR …    what each rank gets, read back from the emitted files: against the plan, and with
                                   several directories against each other (equivalence.py beside this file)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..diagnostics import Diagnostic, Severity
from ..directory import MANIFEST, describe, read_manifest, verify
from . import DIAGNOSTICS, OK, report
from .arguments import Arguments
from .inspect import no_artifact, no_option, usage

EXAMPLE = "jobc verify artifacts/hello/local"


def verify_command(arguments: Arguments) -> int:
    words = list(arguments.words)
    if "--equivalence" in words:
        from .equivalence import equivalence_command

        return equivalence_command([word for word in words if word != "--equivalence"])
    if "--config-dir" in words:
        at = words.index("--config-dir")
        if at + 1 == len(words):
            raise usage("verify", "a folder after --config-dir", EXAMPLE)
        arguments = replace(arguments, config_dir=Path(words[at + 1]))
        del words[at : at + 2]
    if option := next((word for word in words if word.startswith("-")), None):
        raise no_option("verify", option, "it has --equivalence and --config-dir FOLDER")
    if not words:
        raise usage("verify", "DIR", EXAMPLE)
    for word in words:
        if not (Path(word) / MANIFEST).is_file():
            raise no_artifact(Path(word), "jobc verify")
    return max(_verify(word, arguments) for word in words)


def _verify(word: str, arguments: Arguments) -> int:
    edited = [
        Diagnostic(
            "JC5007",
            f"{word}/{describe(edit)}",
            "it is not as jobc wrote it",
            "jobc --force …, with the words you compiled it with, undoes this; without --force it is kept",
        )
        for edit in verify(Path(word))
    ]
    report(edited)
    manifest = read_manifest(Path(word))
    if edited:
        print(f"{word}: {len(edited)} edit{'s' * (len(edited) > 1)}")
        print(f"  digest   {manifest['digest']}, of the files as jobc wrote them")
    else:
        print(f"{word}: {len(manifest['files'])} files as jobc wrote them\n  digest   {manifest['digest']}")
    drifted = _drifted(word, arguments)
    return DIAGNOSTICS if edited or drifted else OK


def _drifted(word: str, arguments: Arguments) -> bool:
    """Says whether the inputs still give this directory, and if not, what they would change."""
    from ..drift import NotHere, drift
    from .diff import describe as difference

    try:
        found = drift(Path(word), arguments.config_dirs)
    except NotHere as error:
        print(f"  inputs   not compared: {error}")
        return False
    if found is None:
        print("  inputs   give the same files now")
        return False
    because = "; ".join(found.causes) or "nothing that is recorded explains it: the checkout of jobc was changed"
    hint = (
        "jobc --force …, with the words you compiled it with, takes the change; a run goes on with what it began with"
    )
    title = f"{word}: its inputs give other files now"
    if found.refused:
        title = f"{word}: its inputs do not compile any more"
    if found.elsewhere:
        title = f"{word}: its inputs are not what they were"
        print(f"  inputs   not compiled again: not here: {', '.join(found.elsewhere)}")
    report([Diagnostic("JC5032", title, because, hint, severity=Severity.ERROR), *found.refused])
    if found.found is not None and found.found.differs:
        print("\n".join(difference(found.found)))
    elif found.files:
        print("\n".join(["", "files", *(f"  {path}" for path in found.files)]))
    if found.library:
        print("\n  lib/ would hold another trainer")
    return True


COMMANDS: dict[str, Callable[[Arguments], int]] = {"verify": verify_command}
