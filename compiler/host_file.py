"""`hosts=@FILE`: hosts from a file, as clusters have them lying about (node_ip_list.txt, MPI and DeepSpeed hostfiles).

In:  a composed tree whose host lists may be `@FILE`.   Out: the tree with the hosts, what was read, findings.
A relative FILE begins in the folder of the config file that names it, or where jobc was called for the command line.
One entry a line: `node1`, `a,b`, `node[1-4]`, `user@node1`, `node1 slots=8`; `#` begins a comment. The first is node 0.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from .convert import spec_keys, type_at
from .diagnostics import CompileError, Diagnostic, nearest
from .source import read_text
from .spec import JobSpec
from .text import COMMAND_LINE, Origin
from .values import Refused, expand_hostlist, fold_hostlist, machine_of

Folders = Mapping[str, Path]  # root of an origin -> its folder
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@%-]*", re.ASCII)
_SLOTS = re.compile(r"(?:max[-_])?slots=([0-9]+)")  # Open MPI 4 hostfile(7), DeepSpeed hostfiles


@dataclass(frozen=True)
class Host:
    """One host of a file. slots: processes that it takes, None when the file does not say."""

    name: str
    slots: int | None
    origin: Origin


@dataclass
class HostFiles:
    """What the host files of one job say.

    typed:   spec key -> the `@FILE` it was written as; hosts: spec key -> the file's hosts
    digests: `root:path` -> sha256 of the text
    """

    typed: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, list[Host]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def is_host_file(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("@")


def read_host_files(
    tree: Mapping[str, Any], origin_of: Callable[[str], Origin | None], folders: Folders
) -> tuple[dict[str, Any], HostFiles]:
    """The tree with every `@FILE` of a host list replaced by its hosts. tree: text leaves; it is not changed."""
    files, out = HostFiles(), dict(tree)
    for key in _host_keys():
        section, _, name = key.rpartition(".")
        held = out.get(section) if section else out
        if not isinstance(held, Mapping) or not is_host_file(held.get(name)):
            continue
        typed = str(held[name])
        hosts = _read(typed[1:], origin_of(key), folders, files, key)
        folded = fold_hostlist(tuple(host.name for host in hosts)) or None
        out[section or name] = {**held, name: folded} if section else folded
        files.typed[key], files.hosts[key] = typed, hosts
    return out, files


def too_few_slots(files: HostFiles, nodes: int, procs: int) -> Iterator[Diagnostic]:
    """JC1133 for a host of `hosts` that is used and that takes fewer processes than the job starts on a node."""
    for host in files.hosts.get("hosts", [])[:nodes]:
        if host.slots is not None and host.slots < procs:
            because = f"the job starts {procs} processes on each node"
            title = f"{host.name} has {host.slots} slot{'s' * (host.slots != 1)}"
            hint = f"procs={host.slots}, or mend the file" if host.slots else f"remove {host.name} from the file"
            yield Diagnostic("JC1133", title, because, hint, host.origin, "hosts")
            return  # the others have as many, and one is enough to know


@cache
def _host_keys() -> list[str]:
    """The spec keys that are host lists: hosts, queue.nodelist, queue.exclude."""
    listed = {key: type_at(JobSpec, key) for key in spec_keys(JobSpec)}
    return [key for key, hint in listed.items() if hint == type_at(JobSpec, "hosts")]


def _read(typed: str, by: Origin | None, folders: Folders, files: HostFiles, key: str) -> list[Host]:
    """The hosts of one file; what is wrong with it goes to files.diagnostics."""
    path, place = _place(typed, by, folders)
    if not path.is_file():
        around = sorted(found.name for found in path.parent.glob("*") if found.is_file())
        close = nearest(path.name, around)
        what = "a folder" if path.is_dir() else "a device or a pipe"
        because = f"it is {what}, and no file" if path.exists() else "there is no such file"
        if by is None or by.root == COMMAND_LINE:
            because += ", and a relative path begins in the folder you are in"
        else:
            because += f", and a relative path begins beside {by.root}:{by.path}"
        hint = (
            f"{key}=@{os.path.join(os.path.dirname(typed), close[0])}" if close else "'hosts=[node1,node2]' for a start"
        )
        files.diagnostics.append(Diagnostic("JC1130", f"no file of hosts {typed!r}", because, hint, by, key))
        return []
    try:
        text = read_text(str(path), place)
    except CompileError as error:
        files.diagnostics += error.diagnostics
        return []
    files.digests[f"{place.root}:{place.path}"] = hashlib.sha256(text.encode()).hexdigest()
    hosts = list(_lines(text, place, key, files.diagnostics))
    _refuse_twice(hosts, key, files.diagnostics)
    if not hosts and not files.diagnostics:
        hint = "one host a line, the first is node 0"
        files.diagnostics.append(Diagnostic("JC1134", f"{typed} names no host", "it is empty", hint, place, key))
    return hosts


def _place(typed: str, by: Origin | None, folders: Folders) -> tuple[Path, Origin]:
    """(where the file lies, its place for messages). by: where `@FILE` was written."""
    path = Path(typed).expanduser()
    if path.is_absolute() or by is None or by.root not in folders:
        return path, Origin("file", typed)
    relative = os.path.normpath(os.path.join(os.path.dirname(by.path), typed))
    return folders[by.root] / relative, Origin(by.root, relative)


def _lines(text: str, place: Origin, key: str, refused: list[Diagnostic]) -> Iterator[Host]:
    for number, line in enumerate(text.split("\n"), 1):
        entry = line.partition("#")[0].strip()
        at = Origin(place.root, place.path, number, len(line) - len(line.lstrip()) + 1)
        try:
            for name, slots in _entry(entry) if entry else ():
                yield Host(name, slots, at)
        except Refused as error:
            hint = f"{error.values[0]}, for example" if error.values else "one host a line"
            refused.append(Diagnostic("JC1131", f"cannot read {entry!r}", error.because, hint, at, key))


def _entry(entry: str) -> list[tuple[str, int | None]]:
    """(name, slots) of each host of one line, or Refused."""
    if _NAME.fullmatch(entry):  # most lines are such, and some files have ten thousand
        return [(entry, None)]
    words = entry.split()
    counts = [found for word in words if (found := _SLOTS.fullmatch(word))]
    names = [word for word in words if not _SLOTS.fullmatch(word)]
    if unknown := next((word for word in names if "=" in word), ""):
        raise Refused(
            f"{unknown} is no host, and of settings only slots=N is read", f"{names[0].partition('=')[0]} slots=8"
        )
    if len(names) > 1 and not any(word.endswith(",") or word.startswith(",") for word in names):
        raise Refused("one line holds one host, or several with commas between", ",".join(names))
    if colon := re.fullmatch(r"([^:]+):([0-9]+)", names[0] if names else ""):
        raise Refused("a number after : is MPICH's way to say how many processes", f"{colon[1]} slots={colon[2]}")
    slots = min((int(count[1]) for count in counts), default=None)
    return [(name, slots) for name in expand_hostlist(" ".join(names))]


def _refuse_twice(hosts: list[Host], key: str, refused: list[Diagnostic]) -> None:
    """JC1132"""
    first: dict[str, Host] = {}
    for host in hosts:
        before = first.setdefault(machine_of(host.name), host)
        if before is not host:
            because = f"line {before.origin.line} lists it already, so two nodes would share a host"
            hint = "remove one of the two"
            refused.append(Diagnostic("JC1132", f"{host.name} is listed twice", because, hint, host.origin, key))
