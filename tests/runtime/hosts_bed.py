"""Hosts without machines: a stand-in for ssh runs each command here, in the host's folder; pdsh and clush start it.

In   an empty folder; with separate(), each host has its own folder at the path of `own`
Out  Bed.root(HOST); Bed.calls: the hosts of all connections, in order
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# The last two words are the host and the command. A host without a folder cannot be reached.
SSH = """#!/bin/bash
host=${*: -2:1} command=${*: -1}
echo "$host" >>BED/calls
[[ -d BED/on/$host ]] || { echo "ssh: Could not resolve hostname $host" >&2; exit 255; }
cat BED/greeting 2>/dev/null
if [[ -e BED/apart ]]; then export HOME=BED/on/$host/home command=${command//'SHARED'/BED/on/$host}; fi
exec bash -p -c "$command"
"""
# Both read the hosts from stdin, and replace the placeholder for the host in their last word.
PDSH = """#!/bin/bash
words=$(sed "s/%%/\\x01/g; s/PLACEHOLDER/{}/g; s/\\x01/%/g" <<<"${@: -1}") worst=0
while read -r host; do
    text=${words//"{}"/$host}
    START </dev/null 2>&1 | sed "s/^/$host: /"
    code=${PIPESTATUS[0]}
    if ((code > worst)); then worst=$code; fi
done
exit "$worst"
"""
CLIENTS = {
    "ssh": SSH,
    "pdsh": PDSH.replace("PLACEHOLDER", "%h").replace("START", 'ssh $PDSH_SSH_ARGS_APPEND "$host" "$text"'),
    "clush": PDSH.replace("PLACEHOLDER", "%host").replace("START", 'bash -c "$text"'),
}


class Bed:
    def __init__(self, folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
        self.folder = folder / "bed"
        for host in hosts:
            (self.root(host) / "home").mkdir(parents=True)
        (self.folder / "bin").mkdir(parents=True)
        for name, text in CLIENTS.items():
            program = self.folder / "bin" / name
            program.write_text(text.replace("BED", str(self.folder)).replace("SHARED", str(own)))
            program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{self.folder}/bin:{os.environ['PATH']}")

    def separate(self) -> None:
        """From now on, the hosts share nothing."""
        (self.folder / "apart").touch()

    def root(self, host: str) -> Path:
        """Return what the host has at the path of `own` after separate()."""
        return self.folder / "on" / host

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().split() if file.exists() else []
