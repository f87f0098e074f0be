"""`jobctl VERB …` or `jobctl PROGRAM …`: run a verb, or a program for nodes, from the zip file in every artifact.

Verbs run with `python -I -S`, so neither site-packages nor PYTHONPATH nor the working directory affects them.
"""
# No `from __future__ import annotations`: any Python 3 must be able to compile this file and report that it is too old.

import os
import sys
from functools import partial
from importlib import import_module

OLDEST = (3, 8)
PACKAGE = __package__ or "jobc_runtime"  # in jobctl
PROGRAMS = {  # each module's folder
    "container": "containers", "depot": "storage", "launch": "supervisor", "mpi": "ranks", "node": "node",
    "node_failure": "node", "rank": "ranks", "reach": "network", "spawn": "ranks",
    "steps": "ranks", "supervise": "supervisor", "check_table": "engines", "task": "node",
}  # fmt: skip
ENGINE_PROGRAMS = ("batch", "join")  # modules in the backend's engine
VERBS = (  # modules in verbs/
    "submit", "status", "logs", "stop", "preflight", "smoke", "shell", "clean", "prefetch", "source",
)  # fmt: skip


def main(words: "list[str]") -> int:
    """Run the named verb or program and return its exit code, or 2 if the name is unknown."""
    name = next((word for word in words if not word.startswith("-")), "")  # torch.distributed.launch puts options first
    if sys.version_info < OLDEST:
        print("error: jobctl needs Python 3.8 or newer, and python3 is", sys.version.split()[0], file=sys.stderr)
        return 1
    if name in VERBS and not sys.flags.isolated:
        os.execv(sys.executable, [sys.executable, "-I", "-S", sys.argv[0], *words])
    if name not in (*PROGRAMS, *ENGINE_PROGRAMS, *VERBS):
        return _print_help(name)
    words.remove(name)
    os.environ.pop("POSIXLY_CORRECT", None)  # with it, bash exits if the environment has a function named exec
    main = _import_program(name).main
    if name in VERBS:
        main = partial(import_module(f"{PACKAGE}.system.command_line").run_verb_until_ended, main)
    code: int = main(words)
    return code


def _import_program(name: str):  # type: ignore[no-untyped-def]
    if name in ENGINE_PROGRAMS:
        return import_module(f"jobc_engine.{name}")
    return import_module(f"{PACKAGE}.{PROGRAMS.get(name, 'verbs')}.{name}")


def _print_help(name: str) -> int:
    if name not in ("", "help"):
        print(f"error: unknown verb {name!r}\n  hint: jobctl help lists the verbs", file=sys.stderr)
        return 2
    code: int = import_module(f"{PACKAGE}.verbs.help").main(VERBS)
    return code


def _describe_zip_damage() -> str:
    """Return what is wrong with this zip file, or "" if nothing is wrong or it is unpacked."""
    archive = getattr(globals()["__loader__"], "archive", None)
    if archive is None:
        return ""
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(archive) as program:
            module = program.testzip()
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        return str(error)
    return f"the checksum of {module} does not match" if module else ""


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Exception:
        damage = _describe_zip_damage()
        if not damage:
            raise
    print(f"error: {sys.argv[0]} is damaged: {damage}\n  hint: compile the job again", file=sys.stderr)
    sys.exit(1)
