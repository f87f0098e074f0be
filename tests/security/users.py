"""Jobs in a folder that two users share: the users, and the artifact that both run."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from jobc.tests.packed import compile_here

NEIGHBOUR = 12345  # a uid and gid without a name
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIMEOUT_S = 60


@dataclass(frozen=True)
class Ended:
    code: int
    output: str


def as_neighbour(*words: str) -> list[str]:
    return ["setpriv", f"--reuid={NEIGHBOUR}", f"--regid={NEIGHBOUR}", "--clear-groups", *words]


def in_another_pid_namespace(*words: str) -> list[str]:
    """Return a command that runs in a container with this machine's host name and files."""
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *words]


@dataclass(frozen=True)
class SharedJob:
    """A job `demo` of root, compiled in `folder`, to which both users can write."""

    folder: Path

    @property
    def artifact(self) -> Path:
        return self.folder / "artifacts" / "demo" / "local"

    @property
    def runs(self) -> Path:
        return self.folder / "runs" / "demo"

    def compile(self, *overrides: str, script: str = "program.py") -> None:
        words = ["name=demo", "procs=1", "launcher=spawn", "code=shared", *overrides, "--", script]
        compile_here(self.folder, *words)

    def environment(self, **extra: str) -> dict[str, str]:
        """Return an environment without the caller's variables: one PATH, and one home per user."""
        return {"PATH": SYSTEM_PATH, "HOME": str(self.home()), "TMPDIR": str(self.folder / "tmp"), **extra}

    def home(self, user: str = "root") -> Path:
        return self.folder / "homes" / user

    def call(self, word: str, *words: str, **environment: str) -> Ended:
        return self._end(self._command(word, *words), self.environment(**environment))

    def call_as_neighbour(self, word: str, *words: str, **environment: str) -> Ended:
        home = str(self.home("neighbour"))
        return self._end(as_neighbour(*self._command(word, *words)), self.environment(HOME=home, **environment))

    def start(self, word: str, *words: str, container: bool = False) -> subprocess.Popen[str]:
        command = self._command(word, *words)
        return subprocess.Popen(
            in_another_pid_namespace(*command) if container else command,
            cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def call_in_container(self, word: str, *words: str, **environment: str) -> Ended:
        command = in_another_pid_namespace(*self._command(word, *words))
        return self._end(command, self.environment(**environment))

    def _command(self, word: str, *words: str) -> list[str]:
        """Return the command for a verb, or for a program at a path."""
        return [*([word] if "/" in word else [str(self.artifact / "jobctl"), word]), *words]

    def _end(self, words: list[str], environment: dict[str, str]) -> Ended:
        done = subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout + done.stderr)

    def names(self) -> list[str]:
        return sorted(run.name for run in self.runs.iterdir())


def make_shared_job(folder: Path, program: str) -> SharedJob:
    job = SharedJob(folder)
    folder.chmod(0o755)
    (folder / "program.py").write_text(program)
    for user, uid in (("root", 0), ("neighbour", NEIGHBOUR)):
        job.home(user).mkdir(parents=True)
        os.chown(job.home(user), uid, uid)
    for shared in (folder / "tmp", job.runs):
        shared.mkdir(parents=True)
        shared.chmod(0o777)
    (folder / "tmp").chmod(0o1777)
    return job
