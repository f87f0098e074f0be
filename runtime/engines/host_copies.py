"""Send a run to its hosts, each of which has its own run folders at the same path (storage.run=node).

In:  a local run folder, marked with state/mirror. The folder is never sent to itself, even if this machine is one of
     the hosts.
Out: on each host, the run folder with the attempt, the code and the secrets. If sending fails, the worst exit code.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..exit_codes import DATA_BROKEN
from ..run_folder.artifact_copies import artifact_copy_of_attempt
from ..run_folder.run import Run
from ..run_folder.run_secrets import delete_run_secrets, secrets_folder_of_run
from ..system.cksum import cksum
from ..system.failure import Failure
from ..system.values import read_text
from . import host_commands
from .hosts import BEGINS, HOST_S, HostClient, HostEntry, hosts_of, print_to_stderr, quote_for_remote_shell

if TYPE_CHECKING:
    from .hosts import Say


_MOST_BYTES = 1 << 16  # maximum size of a response
_MARK = "state/mirror"
_ARTIFACT = "artifact/"
_CHECKPOINT_HOSTS = "state/checkpoint_hosts"
# Skips the output of start-up files, as the client does; rsync then reads from the connection
_SKIP = f'while IFS= read -r line && [[ $line != *"{BEGINS}" ]]; do :; done; cat'


class HostCopies:
    """A run's copies on its newest attempt's hosts."""

    def __init__(self, client: HostClient, run: Run) -> None:
        self.client, self.run, self.hosts = client, run, hosts_of(run)
        self.is_sent = False

    def send_attempt_files(self, attempt: int, code_kind: str) -> int:
        run, has_code = self.run.path, (self.run.path / "code").is_dir()
        (run / _MARK).touch()
        self.is_sent = True
        paths = [f"{_ARTIFACT}{attempt}", "state/run"]
        code = self.send_paths([*paths, "code"] if has_code and code_kind != "rsync" else paths, self.hosts)
        if not code and has_code and code_kind == "rsync":
            code = self.client.call_on_all_hosts(self.hosts, self._send_code, print_to_stderr)
        if not code and secrets_folder_of_run(run).is_dir():
            code = self.client.call_on_all_hosts(self.hosts, self._send_secrets, print_to_stderr)
        return code

    def send_paths(self, paths: Sequence[str], hosts: Sequence[HostEntry]) -> int:
        """Send files and folders of the run, and return the worst exit code."""
        words = ["sh", "-c", host_commands.RECEIVE, str(self.run.path), run_checksum(self.run)]
        feed = partial(_write_archive, self.run.path, paths)
        return self.client.call_on_all_hosts(
            hosts, lambda host, say: self.client.run_on(host, words, say, feed), print_to_stderr
        )

    def remove_sent_files(self, attempt: int) -> None:
        """Remove from the hosts what was sent for an attempt that could not be started."""
        if self.is_sent:
            words = ["sh", "-c", host_commands.REMOVE, str(self.run.path), run_checksum(self.run), str(attempt)]
            self.client.run(self.hosts, words, lambda _: None)

    def forget_secrets(self) -> None:
        """Remove the run's secrets from this machine and its hosts."""
        folder = secrets_folder_of_run(self.run.path)
        if not folder.is_dir():
            return
        delete_run_secrets(self.run.path)
        if os.path.lexists(self.run.path / _MARK):
            words = ["sh", "-c", host_commands.FORGET_SECRETS, folder.name]
            self.client.run(self.hosts, words, print_to_stderr)

    @staticmethod
    def require_checkpoint_hosts(run: Run, hosts: Sequence[HostEntry]) -> None:
        """Raise Failure if the run's checkpoints may be on a host that is no longer in `hosts`."""
        names = {host.name for host in hosts}
        for name in _checkpoint_hosts(run):
            if name and name not in names:
                why = f"run {run.id} may have checkpoints on {name}, which is not one of the hosts"
                copy = f"copy {run.path}/checkpoints from there to one of the hosts"
                hint = f"add the host to hosts; or {copy}, and remove its line in {run.path / _CHECKPOINT_HOSTS}"
                raise Failure(why, hint)

    def record_checkpoint_host(self) -> None:
        if self.hosts[0].name not in _checkpoint_hosts(self.run):
            with open(self.run.path / _CHECKPOINT_HOSTS, "a") as file:
                file.write(f"{self.hosts[0].name}\n")

    def mark_stopped(self) -> None:
        words = ["sh", "-c", host_commands.MARK_STOPPED, str(self.run.path)]
        self.client.run(self.hosts, words, timeout_s=HOST_S)

    def _send_code(self, host: HostEntry, say: Say) -> int:
        """Send the code by rsync, into a folder used only by this run. Files that exist in the host's last run are
        copied from there, not linked, because a script may write to its copy.
        """
        run = str(self.run.path)
        if shutil.which("rsync") is None:
            say("FAIL  rsync not found on this machine: install it, or use code=snapshot")
            return DATA_BROKEN
        with self.client.open_process(host, ["sh", "-c", host_commands.LAST_CODE, run], say) as process:
            answer = b"" if process.stdout is None else process.stdout.read(_MOST_BYTES)
        folder = os.fsdecode(answer).rstrip("\n")
        if process.returncode or not folder:
            return process.returncode  # no folder means that the code is already there
        last = folder[len("code ") :]
        rsh = (
            f"bash -p -c 'set -o pipefail; \"$@\" | {{ {_SKIP}; }}' - {quote_for_remote_shell(self.client.ssh_command)}"
        )
        options = ["--archive", "--secluded-args", *([f"--copy-dest={last}"] if last else [])]
        options += [f"--rsync-path=echo '{BEGINS}'; rsync", f"--rsh={rsh}"]
        folders = [f"{run}/code/", f"{host.name}:{run}/.code.{host.name}/"]
        code = self.client.run_here(["rsync", *options, "--", *folders], say)
        return code or self.client.run_on(host, ["sh", "-c", host_commands.NAME_CODE, run, host.name], say)

    def _send_secrets(self, host: HostEntry, say: Say) -> int:
        """Send the secrets to the user's home on the host, where nobody else can read them."""
        folder = secrets_folder_of_run(self.run.path)
        words = ["sh", "-c", host_commands.KEEP_SECRETS, folder.name]
        return self.client.run_on(host, words, say, partial(_write_archive, folder, sorted(os.listdir(folder))))


def was_sent_from_here(run: Run) -> bool:
    """Return whether the run was sent from this folder. False for another user's run, because it may contain links."""
    return os.path.lexists(run.path / _MARK) and run.is_mine


def run_checksum(run: Run) -> str:
    """Return what `cksum <state/run` prints, which distinguishes the run from another one with the same ID."""
    content = (run.path / "state/run").read_bytes()
    return f"{cksum(content)} {len(content)}"


def _checkpoint_hosts(run: Run) -> list[str]:
    return read_text(run.path / _CHECKPOINT_HOSTS).split("\n")


def _write_archive(folder: Path, names: Sequence[str], file: BinaryIO) -> None:
    """Write a tar archive in which everything is writable by its owner. Each attempt has its own copy of the artifact
    because a host may lack earlier attempts' copies.
    """
    form = tarfile.GNU_FORMAT
    with contextlib.suppress(BrokenPipeError), tarfile.open(fileobj=file, mode="w|", format=form) as archive:
        for name in names:
            copy = artifact_copy_of_attempt(folder, int(name[len(_ARTIFACT) :])) if name.startswith(_ARTIFACT) else None
            archive.add(str(copy or folder / name), name, filter=_make_writable)


def _make_writable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode |= 0o200
    return member
