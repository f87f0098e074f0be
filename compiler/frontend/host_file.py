"""Read `hosts=@FILE`: host names from files that clusters already have (node_ip_list.txt, MPI or DeepSpeed hostfiles).

In:  a composed tree in which a host list may be `@FILE`.
Out: the tree with the hosts inserted, the digests of the files, and diagnostics.

A relative FILE in a config file is resolved from that file's folder; on the command line, from the current directory. A
file has one entry per line: `node1`, `a,b`, `node[1-4]`, `user@node1` or `node1 slots=8`. A `#` starts a comment. The
first host is node 0.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ...runtime.system.untrusted_files import MIB, Unreadable
from ..diagnostics.diagnostic import Diagnostic, nearest
from ..diagnostics.origin import COMMAND_LINE, Origin
from ..spec.host_list import MOST_HOSTS, expand_hostlist, fold_hostlist, normalized_host
from ..spec.invalid_value import InvalidValue
from ..spec.job_spec import JobSpec
from ..spec.type_hints import spec_keys, type_of_key
from .observed_files import FILE, ask_file_system, read_text
from .project_files import OutsideProject, project_folders, require_inside

Folders = Mapping[str, Path]  # an origin's root -> its folder
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@%-]{,252}", re.ASCII)
_SLOTS = re.compile(r"(?:max[-_])?slots=([0-9]{1,9})")  # Open MPI 4 hostfile(7), DeepSpeed hostfiles

_FOREIGN = re.compile(r"[^\w.:%@,\[\]\s-]", re.ASCII)
_FILE_NAME = re.compile(r"[\w./-]*(/|\.txt|hosts|hostfile|machinefile|nodefile)[\w.-]*")  # rather than a host
_MOST_FAULTS = 10  # a file with more invalid lines is probably not a host list
MOST_BYTES = 4 * MIB  # 100,000 names of 40 characters


@dataclass(frozen=True)
class HostFileEntry:
    """One host in a file. slots: number of processes, or None if the file does not set it."""

    name: str
    slots: int | None
    origin: Origin


@dataclass
class HostFiles:
    """Contents of a job's host files.

    typed:   spec key -> the `@FILE` in the config.
    hosts:   spec key -> the hosts in the file.
    digests: `root:path` -> sha256 of the text.
    """

    typed: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, list[HostFileEntry]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def is_host_file(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("@")


def read_host_files(
    tree: Mapping[str, Any],
    origin_of: Callable[[str], Origin | None],
    is_set_on_command_line: Callable[[str], bool],
    folders: Folders,
) -> tuple[dict[str, Any], HostFiles]:
    """Return the tree with every `@FILE` in a host list replaced by the file's hosts, and the contents of the files.

    The command line and the user's own config folder may refer to any file; other config files may only refer to files
    in the project and config folders.
    tree: has text leaves and is not modified.
    is_set_on_command_line: returns whether a key's value is on the command line.
    """
    files, out = HostFiles(), dict(tree)
    for key in _host_keys():
        section, _, name = key.rpartition(".")
        held: Any = out.get(section) if section else out
        typed = str(held.get(name)) if isinstance(held, Mapping) else ""
        if not is_host_file(typed):
            if _FILE_NAME.fullmatch(typed) and is_set_on_command_line(key) and ask_file_system("kind", typed) == FILE:
                title, because = f"{key}: {typed!r} is a file, not a host list", "a file of hosts needs an @"
                files.diagnostics.append(Diagnostic("JC1202", title, because, f"{key}=@{typed}", origin_of(key), key))
                files.hosts[key] = []
            continue
        by = origin_of(key)
        of_user = is_set_on_command_line(key) or (by is not None and by.root == "user")
        allowed = None if of_user else [*folders.values(), *project_folders()]
        hosts = _read_host_file(typed[1:], by, allowed, folders, files, key)
        folded = fold_hostlist(tuple(host.name for host in hosts)) or None
        out[section or name] = {**held, name: folded} if section else folded
        files.typed[key], files.hosts[key] = typed, hosts
    return out, files


def find_missing_slots(files: HostFiles, nodes: int, procs: int) -> Iterator[Diagnostic]:
    """Yield JC1133 for the first host in use with fewer slots than the job's processes per node."""
    for host in files.hosts.get("hosts", [])[:nodes]:
        if host.slots is not None and host.slots < procs:
            because = f"the job starts {procs} processes on each node"
            title = f"{host.name} has {host.slots} slot{'s' * (host.slots != 1)}"
            hint = f"procs={host.slots}, or correct the file" if host.slots else f"remove {host.name} from the file"
            yield Diagnostic("JC1133", title, because, hint, host.origin, "hosts")
            return  # usually all hosts have the same number of slots


@cache
def _host_keys() -> list[str]:
    listed = {key: type_of_key(JobSpec, key) for key in spec_keys(JobSpec)}
    return [key for key, hint in listed.items() if hint == type_of_key(JobSpec, "hosts")]


def _read_host_file(
    typed: str,
    reference_origin: Origin | None,
    allowed: Sequence[Path] | None,
    folders: Folders,
    files: HostFiles,
    key: str,
) -> list[HostFileEntry]:
    """Return the hosts in one file, and add errors to files.diagnostics.

    reference_origin: position of `@FILE`.
    allowed: folders that may contain the file, or None for any folder.
    """
    path, file_origin = _resolve_path(typed, reference_origin, folders)
    try:
        if allowed is not None:
            require_inside(path, allowed)
        text = read_text(path, MOST_BYTES)
    except OutsideProject as error:
        because = f"{error}; a config file can use host files in its own folder and in the current directory"
        hint = f"{key}=@{shlex.quote(typed)} on the command line, or copy the file next to the config file"
        files.diagnostics.append(
            Diagnostic("JC1115", f"cannot read hosts from {typed!r}", because, hint, reference_origin, key)
        )
        return []
    except Unreadable as error:
        files.diagnostics.append(_unreadable_diagnostic(error, typed, reference_origin, file_origin, key))
        return []
    files.digests[f"{file_origin.root}:{file_origin.path}"] = hashlib.sha256(text.encode()).hexdigest()
    hosts = list(_parse_lines(text, file_origin, key, files.diagnostics))
    _reject_duplicates(hosts, key, files.diagnostics)
    if not hosts and not files.diagnostics:
        because, hint = "no line contains a host", "write one host per line; the first host is node 0"
        files.diagnostics.append(
            Diagnostic("JC1134", f"{typed} does not list any host", because, hint, file_origin, key)
        )
    return hosts


def _unreadable_diagnostic(
    error: Unreadable, typed: str, reference_origin: Origin | None, file_origin: Origin, key: str
) -> Diagnostic:
    if error.path.is_file():
        hint = "save it as readable UTF-8 text with one host per line"
        return Diagnostic("JC1001", "cannot read this file", f"it {error.reason}", hint, file_origin)
    because = "the file does not exist" if error.missing else f"it {error.reason}"
    if reference_origin is None or reference_origin.root == COMMAND_LINE:
        because += "; relative paths are resolved from the current directory"
    else:
        because += f"; relative paths are resolved from the folder of {reference_origin.root}:{reference_origin.path}"
    around = sorted(entry.name for entry in error.path.parent.glob("*") if entry.is_file())
    close = nearest(error.path.name, around)
    hint = f"{key}=@{os.path.join(os.path.dirname(typed), close[0])}" if close else "'hosts=[node1,node2]', for example"
    problem = "does not exist" if error.missing else "cannot be read"
    return Diagnostic("JC1130", f"host file {typed!r} {problem}", because, hint, reference_origin, key)


def _resolve_path(typed: str, reference_origin: Origin | None, folders: Folders) -> tuple[Path, Origin]:
    """Return the file's path, and its origin for messages. reference_origin: position of `@FILE`"""
    path = Path(typed).expanduser()
    if path.is_absolute() or reference_origin is None or reference_origin.root not in folders:
        return path, Origin("file", typed)
    relative = os.path.normpath(os.path.join(os.path.dirname(reference_origin.path), typed))
    return folders[reference_origin.root] / relative, Origin(reference_origin.root, relative)


def _parse_lines(text: str, file_origin: Origin, key: str, refused: list[Diagnostic]) -> Iterator[HostFileEntry]:
    """Yield the hosts in the file. Messages do not quote the file's lines, because the user may have named the wrong
    file.

    refused: list to which JC1131 is added for each invalid line, or once for the whole file if all lines or too many
    lines are invalid.
    """
    host_count = 0
    faults: list[Diagnostic] = []
    for number, line in enumerate(text.split("\n"), 1):
        entry = line.partition("#")[0].strip()
        position = Origin(file_origin.root, file_origin.path, number, len(line) - len(line.lstrip()) + 1)
        try:
            for name, slots in _parse_line(entry) if entry else ():
                host_count += 1
                if host_count > MOST_HOSTS:
                    raise InvalidValue(f"the file has more than {MOST_HOSTS:,} hosts", "node[1-4]")
                yield HostFileEntry(name, slots, position)
        except InvalidValue as error:
            because, hint = error.because, f"{error.values[0]}, for example"
            faults.append(Diagnostic("JC1131", f"cannot read line {number}", because, hint, position, key))
            if len(faults) > _MOST_FAULTS or host_count > MOST_HOSTS:
                break
    if len(faults) > _MOST_FAULTS or (len(faults) > 1 and not host_count):
        count = f"more than {_MOST_FAULTS}" if len(faults) > _MOST_FAULTS else f"{len(faults)}"
        first = faults[0]
        because = (
            f"{count} of the file's lines cannot be read; {first.title.removeprefix('cannot read ')}: {first.because}"
        )
        faults = [Diagnostic("JC1131", "this is not a host list", because, first.hint, first.origin, key)]
    refused += faults


def _parse_line(entry: str) -> list[tuple[str, int | None]]:
    """Return (name, slots) of each host on one line. Raises InvalidValue with a reason that does not quote the line."""
    if _NAME.fullmatch(entry):  # the usual case must be fast, because some files have ten thousand lines
        return [(entry, None)]
    words = entry.split()
    counts = [match for word in words if (match := _SLOTS.fullmatch(word))]
    names = [word for word in words if not _SLOTS.fullmatch(word)]
    if any("=" in word for word in names):
        raise InvalidValue("the line has a setting, but only slots=N is supported", "node1 slots=8")
    if len(names) > 1 and not any(word.endswith(",") or word.startswith(",") for word in names):
        raise InvalidValue("a line must contain one host, or several separated by commas", "node1,node2")
    if re.fullmatch(r"[^:]+:[0-9]+", names[0] if names else ""):
        raise InvalidValue("HOST:N is MPICH's syntax for the number of processes", "node1 slots=8")
    slots = min((int(count[1]) for count in counts), default=None)
    if foreign := _FOREIGN.search(" ".join(names)):
        raise InvalidValue(f"character {foreign[0]!r} cannot be part of a host name", "node1", "node[1-4]")
    try:
        return [(name, slots) for name in expand_hostlist(" ".join(names))]
    except InvalidValue:
        raise InvalidValue("the line is not a host name, a list or a range", "node[1-4]") from None


def _reject_duplicates(hosts: list[HostFileEntry], key: str, refused: list[Diagnostic]) -> None:
    first: dict[str, HostFileEntry] = {}
    for host in hosts:
        before = first.setdefault(normalized_host(host.name), host)
        if before is not host:
            because = f"the host is already on line {before.origin.line}, so two nodes would share a host"
            hint = "remove one of the two lines"
            refused.append(Diagnostic("JC1132", f"{host.name} is listed twice", because, hint, host.origin, key))
            if len(refused) > _MOST_FAULTS:
                return
