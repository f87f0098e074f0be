"""jobc why FILE:LINE: where one line of an artifact came from; and what is told of a key of the spec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..diagnostics import CompileError, Diagnostic
from ..directory import SOURCE_MAP, read_source_map, text_of
from ..neutral import LIB
from ..sourcemap import SourceMap, SpecValue, line_sum
from ..text import Origin


def why(place: str) -> str:
    """The answer for one FILE:LINE. CompileError JC5004, JC5006 when there is no such line in an artifact."""
    name, _, number = place.rpartition(":")
    file = Path(name)
    directory = next((parent for parent in file.absolute().parents if (parent / SOURCE_MAP).is_file()), None)
    if not file.is_file() or directory is None:
        because = "no .jobc/sourcemap.json above it" if file.is_file() else "there is no such file"
        hint = "give a file of an artifact directory, such as artifacts/hello/local/node.sh:1"
        raise CompileError([Diagnostic("JC5004", f"{name} belongs to no artifact", because, hint)])
    path = file.absolute().relative_to(directory).as_posix()
    lines = lines_of(text_of(file))
    if not 1 <= int(number) <= len(lines):
        hint = f"{name}:{max(len(lines), 1)}"
        raise CompileError([Diagnostic("JC5006", f"{name} has no line {number}", f"it has {len(lines)} lines", hint)])
    return "\n".join(_explain_line(read_source_map(directory), path, place, int(number), lines))


def _explain_line(source_map: SourceMap, path: str, place: str, number: int, lines: Sequence[str]) -> Iterator[str]:
    yield place
    yield f"  | {lines[number - 1]}"
    if path.startswith(f"{LIB}/"):
        yield f"  copied   jobc:trainer/{path.removeprefix(LIB + '/')}:{number}"
        return
    if path.startswith(".jobc/"):
        yield "  made     by jobc from all files: what each line came from, and their sums"
        return
    was, is_same = as_written(source_map.sums.get(path, ()), lines)[number - 1]
    if not is_same:
        yield "  edited   this line is not as jobc wrote it; jobc verify lists all edits"
        if was is None:
            return
        yield f"  instead  of line {was} of jobc:"
    elif was != number:
        yield f"  moved    it was line {was} when jobc wrote it; jobc verify lists all edits"
    assert was is not None
    keys, template = source_map.files[path][was - 1]
    yield f"  from     {template}"
    keys = keys_of(keys, template)
    chosen = source_map.chosen.get(path, ())
    if chosen:
        yield f"  file     this {path} and not another, for {', '.join(chosen)}"
    yield f"  plan     {', '.join(keys)}" if keys else "  constant depends on no key"
    for key in keys:
        if key in source_map.rules:
            yield f"  rule     {key}: {source_map.rules[key]}"
    for key in source_map.spec_keys((*keys, *chosen)):
        yield from spec_key(source_map, key)


def as_written(sums: Sequence[str], lines: Sequence[str]) -> list[tuple[int | None, bool]]:
    """Of each line of a file the number that it had when jobc wrote it, and whether it is that line.

    Of an edited line the number of the one it stands for; None for a line more than jobc wrote.
    """
    now = [line_sum(line) for line in lines]
    if now == list(sums):
        return [(number, True) for number in range(1, len(now) + 1)]
    from difflib import SequenceMatcher

    found: list[tuple[int | None, bool]] = []
    for kind, a, a_end, b, b_end in SequenceMatcher(None, sums, now, autojunk=False).get_opcodes():
        stands_for = kind == "equal" or (kind == "replace" and a_end - a == b_end - b)
        found += [(a + n + 1 if stands_for else None, kind == "equal") for n in range(b_end - b)]
    return found


def keys_of(keys: tuple[str, ...], template: str) -> tuple[str, ...]:
    """backend.name of spec.yaml is the choice itself, which no field of spec or options holds."""
    return ("spec.backend",) if template == "data at backend.name" else keys


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines


def spec_key(source_map: SourceMap, key: str, told: tuple[str, ...] = ()) -> Iterator[str]:
    """What it is, where it was written, why that file is in the job; the same of a key it takes its value from."""
    value = source_map.spec.get(key)
    if value is None:
        yield f"  spec     {key}"
        return
    yield f"  spec     {key} = {_shown(value)}"
    via = f", written as {value.via}" if value.via else ""
    yield f"           {value.origin or 'default'}{via}"
    yield from _option(source_map, value.origin)
    for other in re.findall(r"\$\{([\w.]+)\}", value.via):
        if other in source_map.spec and other not in (key, *told):
            yield from spec_key(source_map, other, (*told, key))


def _shown(value: SpecValue) -> str:
    if isinstance(value.value, list):
        return f"[{','.join('null' if item is None else item for item in value.value)}]"
    return "null" if value.value is None else str(value.value)


def _option(source_map: SourceMap, origin: Origin | None) -> Iterator[str]:
    """Who chose the option of a group whose file a value was written in."""
    if origin is None or not origin.line:
        return
    for group, (option, chosen) in source_map.options.items():
        if f"/{origin.path}".endswith(f"/{group}/{option}.yaml"):
            yield f"           read for {group}={option}, chosen {chosen or 'in a defaults list'}"
