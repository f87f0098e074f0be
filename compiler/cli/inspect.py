"""Commands that read what was written: why, verify, explain, backends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
        hint = f"jobc why {place}:1" if Path(place).exists() else "jobc why artifacts/hello/local/submit.sh:12"
        raise _usage("why", "FILE:LINE", hint)
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
    return _explain_line(read_source_map(directory), path, place, int(number), text[int(number) - 1])


def _explain_line(source_map: SourceMap, path: str, place: str, number: int, text: str) -> str:
    out = [place, f"  | {text}"]
    if path.startswith(f"{LIB}/"):
        return "\n".join([*out, f"  copied   jobc:trainer/{path.removeprefix(LIB + '/')}:{number}"])
    if path.startswith(".jobc/"):
        return "\n".join([*out, "  made     by jobc from all files: what each line came from, and their sums"])
    rows, sums = source_map.files.get(path, ()), source_map.sums.get(path, ())
    if number > len(rows) or sums[number - 1] != line_sum(text):
        return "\n".join([*out, "  edited   this line is not as jobc wrote it; jobc verify lists all edits"])
    keys, template = rows[number - 1]
    out.append(f"  from     {template}")
    if not keys:
        return "\n".join([*out, "  constant depends on no key"])
    out.append(f"  plan     {', '.join(keys)}")
    for key in source_map.spec_keys(keys):
        value = source_map.spec.get(key)
        if value is None:
            out.append(f"  spec     {key}")
            continue
        shown = "null" if value.value is None else value.value
        out.append(f"  spec     {key} = {shown}")
        via = f", written as {value.via}" if value.via else ""
        out.append(f"           {value.origin or 'default'}{via}")
    return "\n".join(out)


def verify_command(arguments: Arguments) -> int:
    """jobc verify DIR …"""
    if not arguments.words:
        raise _usage("verify", "DIR", "jobc verify artifacts/hello/local")
    status = OK
    for word in arguments.words:
        edits = verify(Path(word))
        if edits:
            status = DIAGNOSTICS
            report(
                [
                    Diagnostic(
                        "JC5007", f"{word}/{describe(edit)}", "it is not as jobc wrote it", "compile again, or keep it"
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
        print(f"  honours  {', '.join(sorted(backend.honours)) or 'nothing beyond the neutral files'}")
    return OK


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
