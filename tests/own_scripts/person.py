"""An unprivileged user with a project on the test bed, who starts, stops, fixes and resumes jobs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from jobc.tests.testbed import USER, Host, Process, wait_for
from jobc.tests.testbed.install import PATH

from .styles import MISTAKE, REASON, WAIT, Style, make_project

TIMEOUT_S = 300  # two imports of torch on a busy machine take 60 s
BACKENDS = ("local", "slurm")


@dataclass(frozen=True)
class Person:
    """USER on a host, in the user's own project folder. name: the job's name"""

    host: Host
    project: Path
    name: str = "own"

    @classmethod
    def with_project(cls, host: Host, name: str) -> Person:
        """Make a new project with all scripts."""
        project = make_project(host.home_of_user / name)
        subprocess.run(["chown", "-R", f"--reference={host.home_of_user}", project], check=True)
        return cls(host, project)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment after `. .venv/bin/activate`, with a terminal of 80 columns."""
        return {"PATH": f"{Path(sys.executable).parent}:{PATH}", "COLUMNS": "80"}

    def run(self, *words: str) -> tuple[int, str]:
        """Run a command. Return its exit code and output."""
        both = {"stderr": subprocess.STDOUT, "timeout_s": TIMEOUT_S}
        done = self.host.run(words, user=USER, cwd=self.project, env=self.environment, **both)
        return done.returncode, done.stdout

    def start(self, *words: str) -> Process:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return self.host.popen(words, user=USER, cwd=self.project, env=self.environment, **pipes)

    def jobc(self, backend: str, style: Style, *words: str) -> tuple[int, str]:
        """Compile the job and run it to its end."""
        return self.run("jobc", "run", *self.words(backend, style), *words, *style.overrides, "--", *style.command)

    def words(self, backend: str, style: Style) -> tuple[str, ...]:
        """Return the spec's words. Two ranks run on two nodes if the backend has nodes."""
        nodes = style.ranks if backend == "slurm" else 1
        return (f"name={self.name}", f"backend={backend}", f"nodes={nodes}", f"procs={style.ranks // nodes}")

    def jobctl(self, backend: str, *words: str) -> tuple[int, str]:
        return self.run(f"artifacts/{self.name}/{backend}/jobctl", *words)

    def resume(self, backend: str, run: Path) -> list[str]:
        """Return the words that continue a run with the current code, and wait for its end."""
        wait = ["--wait"] if backend == "slurm" else []
        return [f"artifacts/{self.name}/{backend}/jobctl", "submit", "--resume", run.name, "--new-code", *wait]

    @property
    def runs(self) -> list[Path]:
        """Return the run folders, oldest first."""
        return sorted(self.project.glob(f"runs/{self.name}/*/"), key=lambda path: (path / "artifact").stat().st_ctime)


def finishes(person: Person, backend: str, style: Style, *words: str) -> None:
    """Assert that a script runs unchanged and its files are listed."""
    style.edit(person.project, "")
    code, said = person.jobc(backend, style, *words)
    assert code == style.code and all(text in said for text in style.prints), said
    assert f"jobc: exit {code}: " in said, said
    folder = person.runs[-1] / "code"
    assert not [path for path in style.writes if not any(folder.glob(path)) or any(person.project.glob(path))], said
    lines = [line for line in said.splitlines() if "jobc: script wrote " in line]
    assert len(lines) == (1 if style.writes else 0) and all(f" in {folder}: " in line for line in lines), said
    named = [path for path in style.writes if "*" not in path]
    assert not named or " more" in lines[0] or all(path in lines[0] for path in named), said


def is_mended_stopped_and_resumed(person: Person, backend: str, style: Style, *words: str) -> None:
    """Assert that a mistake is reported, and that the fixed script continues the same run, is stopped, and continues to
    its end.
    """
    style.edit(person.project, MISTAKE)
    code, said = person.jobc(backend, style, *words)
    assert code == 1 and REASON in said, said
    run = person.runs[-1]
    status = person.jobctl(backend, "status")[1]
    assert f"{REASON} ({style.file or style.command[0]}:" in status and f"--resume {run.name} --new-code" in status, (
        status
    )

    style.edit(person.project, WAIT)
    log, follower = run / "logs/rank_00.log", person.start(*person.resume(backend, run))
    wait_for(lambda: "it waits" in log.read_text() or follower.poll() is not None, "the resumed script", TIMEOUT_S)
    code, said = person.jobctl(backend, "stop")
    followed = follower.communicate(timeout=TIMEOUT_S)[0]
    assert code == 0 and REASON not in followed and "it waits" in log.read_text(), followed + said
    status = person.jobctl(backend, "status")[1]
    assert "attempt 1: stopped" in status, status

    style.edit(person.project, "")
    code, said = person.run(*person.resume(backend, run))
    assert code == style.code and f"jobc: exit {code}: " in said and "it waits" not in said, said
    assert run == person.runs[-1] and "attempt 2: " in person.jobctl(backend, "status")[1]
