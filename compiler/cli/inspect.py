"""Commands that read what was written: why, verify, explain, backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..backend import ANY
from ..convert import spec_keys
from ..diagnostics import CompileError, Diagnostic, nearest
from ..directory import MANIFEST, SOURCE_MAP, describe, read_manifest, read_source_map, verify
from ..neutral import LIB
from ..registry import code_pages, find_plugins
from ..sourcemap import SourceMap, line_sum
from . import DIAGNOSTICS, OK, report
from .arguments import COMMANDS as COMMAND_HELP
from .arguments import Arguments


def why_command(arguments: Arguments) -> int:
    """jobc why FILE:LINE …"""
    if not arguments.words:
        raise _usage("why", "FILE:LINE", "jobc why artifacts/hello/local/submit.sh:12")
    for word in arguments.words:
        print(why(word))
    return OK


def why(place: str) -> str:
    """The answer for one FILE:LINE. CompileError JC5004, JC5006 when there is no such line in an artifact."""
    name, _, number = place.rpartition(":")
    file = Path(name)
    if not name or not number.isdigit():
        raise _usage("why", "FILE:LINE", f"jobc why {_a_line_of(Path(place))}")
    directory = next((parent for parent in file.absolute().parents if (parent / SOURCE_MAP).is_file()), None)
    if not file.is_file() or directory is None:
        because = "no .jobc/sourcemap.json above it" if file.is_file() else "there is no such file"
        hint = "give a file of an artifact directory, such as artifacts/hello/local/node.sh:1"
        raise CompileError([Diagnostic("JC5004", f"{name} belongs to no artifact", because, hint)])
    path = file.absolute().relative_to(directory).as_posix()
    text = file.read_text(encoding="utf-8", errors="replace").split("\n")
    if text and not text[-1]:
        text.pop()
    if not 1 <= int(number) <= len(text):
        hint = f"{name}:{max(len(text), 1)}"
        raise CompileError([Diagnostic("JC5006", f"{name} has no line {number}", f"it has {len(text)} lines", hint)])
    return _explain_line(read_source_map(directory), path, place, int(number), text)


def _a_line_of(path: Path) -> str:
    """A FILE:LINE there is: of the file, of the artifact directory, else of the README's example."""
    if path.is_file():
        return f"{path}:1"
    return f"{path}/submit.sh:1" if (path / SOURCE_MAP).is_file() else "artifacts/hello/local/submit.sh:12"


def _explain_line(source_map: SourceMap, path: str, place: str, number: int, lines: Sequence[str]) -> str:
    out = [place, f"  | {lines[number - 1]}"]
    if path.startswith(f"{LIB}/"):
        return "\n".join([*out, f"  copied   jobc:trainer/{path.removeprefix(LIB + '/')}:{number}"])
    if path.startswith(".jobc/"):
        return "\n".join([*out, "  made     by jobc from all files: what each line came from, and their sums"])
    was = _as_written(source_map.sums.get(path, ()), lines, number)
    if was is None:
        return "\n".join([*out, "  edited   this line is not as jobc wrote it; jobc verify lists all edits"])
    if was != number:
        out.append(f"  moved    it was line {was} when jobc wrote it; jobc verify lists all edits")
    keys, template = source_map.files[path][was - 1]
    out.append(f"  from     {template}")
    if template == "data at backend.name":  # the choice itself, which no field of spec or options holds
        keys = ("spec.backend",)
    chosen = source_map.chosen.get(path, ())
    if chosen:
        out.append(f"  file     this {path} and not another, for {', '.join(chosen)}")
    if not keys:
        out.append("  constant depends on no key")
    else:
        out.append(f"  plan     {', '.join(keys)}")
    for key in source_map.spec_keys((*keys, *chosen)):
        value = source_map.spec.get(key)
        if value is None:
            out.append(f"  spec     {key}")
            continue
        shown = "null" if value.value is None else value.value
        if isinstance(shown, list):
            shown = f"[{','.join('null' if item is None else item for item in shown)}]"
        out.append(f"  spec     {key} = {shown}")
        via = f", written as {value.via}" if value.via else ""
        out.append(f"           {value.origin or 'default'}{via}")
    return "\n".join(out)


def _as_written(sums: Sequence[str], lines: Sequence[str], number: int) -> int | None:
    """The number that a line had when jobc wrote the file, None for a line that jobc did not write."""
    now = [line_sum(line) for line in lines]
    if now == list(sums):
        return number
    from difflib import SequenceMatcher

    for block in SequenceMatcher(None, sums, now, autojunk=False).get_matching_blocks():
        if block.b < number <= block.b + block.size:
            return block.a + number - block.b
    return None


def verify_command(arguments: Arguments) -> int:
    """jobc verify DIR …"""
    if not arguments.words:
        raise _usage("verify", "DIR", "jobc verify artifacts/hello/local")
    status = OK
    for word in arguments.words:
        if not (Path(word) / MANIFEST).is_file():
            raise no_artifact(Path(word), "jobc verify")
        edits = verify(Path(word))
        if edits:
            status = DIAGNOSTICS
            report(
                [
                    Diagnostic(
                        "JC5007",
                        f"{word}/{describe(edit)}",
                        "it is not as jobc wrote it",
                        "jobc --force …, with the words you compiled it with, undoes this; without --force it is kept",
                    )
                    for edit in edits
                ]
            )
        else:
            manifest = read_manifest(Path(word))
            print(f"{word}: {len(manifest['files'])} files as jobc wrote them, digest {manifest['digest'][:16]}")
    return status


def explain_command(arguments: Arguments) -> int:
    """jobc explain CODE …"""
    known = code_pages()
    if not arguments.words:
        for page in known.values():
            print(page.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# "))
        return OK
    for code in arguments.words:
        if code.upper() not in known:
            close = nearest(code.upper(), known)
            hint = f"jobc explain {close[0]}" if close else "jobc explain lists all codes"
            raise CompileError([Diagnostic("JC1111", f"no diagnostic has the code {code}", "", hint)])
        print(known[code.upper()].read_text(encoding="utf-8"), end="")
    return OK


def backends_command(arguments: Arguments) -> int:
    """jobc backends: one block each."""
    if arguments.words:
        because = f"it lists all, so {arguments.words[0]} would change nothing"
        raise CompileError([Diagnostic("JC1110", "jobc backends takes no words", because, "jobc backends")])
    for plugin in find_plugins().values():
        try:
            backend = plugin.load()
        except CompileError as error:
            report(error.diagnostics)
            continue
        print(f"{plugin.name}  ({plugin.label})")
        print(f"  start    {backend.launch}")
        options = ", ".join(_leaf_keys(backend.Options)) or "none"
        print(f"  options  {options}")
        honours = [k if v == ANY else f"{k} ({', '.join(v)})" for k, v in sorted(backend.honours.items())]
        print(f"  honours  {', '.join(honours) or 'nothing beyond the neutral files'}")
    return OK


def no_artifact(folder: Path, command: str) -> CompileError:
    """JC5004 for a folder without a manifest; the hint names one below it that has one."""
    below = [*folder.glob(f"*/{MANIFEST}"), *folder.glob(f"*/*/{MANIFEST}")]
    because = f"it holds no {MANIFEST}" if folder.is_dir() else "there is no such folder"
    hint = f"{command} {min(below).parent.parent if below else 'artifacts/hello/local'}"
    return CompileError([Diagnostic("JC5004", f"{folder} is no artifact directory", because, hint)])


def _leaf_keys(options: type) -> list[str]:
    keys = spec_keys(options, "backend")
    return [key for key in keys if not any(other.startswith(f"{key}.") for other in keys)]


def _usage(command: str, wanted: str, example: str) -> CompileError:
    because = COMMAND_HELP[command].partition(":")[0]
    return CompileError([Diagnostic("JC1110", f"jobc {command} needs {wanted}", because, example)])


COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "why": why_command,
    "verify": verify_command,
    "explain": explain_command,
    "backends": backends_command,
}
__all__ = ["COMMANDS", "MANIFEST", "why"]
