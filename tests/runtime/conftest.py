"""A job without the compiler: launch.sh is rendered from a handwritten plan, and its scripts run as a user would run
them.

`job` is a factory. A Job has folders, starts scripts, and waits for marks left by stand-in programs. All processes that
it starts end with the test.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest

from jobc.backends.local.backend import LocalBackend, LocalOptions
from jobc.compiler.emit.render import Render
from jobc.compiler.pipeline.common_files import JOB, emit_job_json
from jobc.compiler.plan.shell_quoting import comment, raw, sh
from jobc.runtime.run_folder.submitted_values import PATH_VARIABLES
from jobc.tests.packed import write_program

REPO = Path(__file__).parents[2]
TEMPLATES = {path.name.removesuffix(".j2"): path for path in (REPO / "compiler/templates").glob("*.sh.j2")}
PROGRAM = Path(__file__).with_name("program.py")
MPIRUN = pytest.param(
    "mpirun",
    marks=[pytest.mark.engine, pytest.mark.skipif(shutil.which("mpirun") is None, reason="not installed: mpirun")],
)
# otherwise, mpirun rejects root
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TIMEOUT_S = 90  # on a busy machine, torchrun takes 20 s to start, and a kill after the grace period takes 10 s more

JINJA = jinja2.Environment(
    undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False
)
JINJA.filters.update(sh=sh, comment=comment, raw=raw)
JINJA.globals.update(path_variables=PATH_VARIABLES)


def plan(**changes: Any) -> SimpleNamespace:
    """Return a plan with two ranks of the stand-in program on one node, started by spawn. Keywords change it: a_b means
    a.b.
    """
    values: dict[str, Any] = {
        "name": "demo",
        "topology": {"nodes": 1, "procs": 2, "gpus": 0, "world_size": 2},
        "launcher": "spawn",
        "rendezvous": {"backend": "static", "port": 0, "timeout_s": 60},
        "network": {"profile": "auto", "interface": None, "debug": False, "settings": ()},
        "caches": {"downloads": None, "compiled": None, "offline": False, "prefetch": ()},
        "command": (sys.executable, str(PROGRAM)),
        "uses_trainer": False,
        "torchrun_options": (),
        "parallel": "ddp",
        "env": {},
        "secrets": {},
        "setup": {
            "kind": "none",
            "modules": (),
            "lines": (),
            "user_lines": (),
            "before": (),
            "per_node": (),
            "then": (),
            "after": (),
            "python": sys.executable,
        },
        "code": {
            "kind": "none",
            "root": ".",
            "max_bytes": 200 * 2**20,
            "script": "",
            "repository": None,
            "commit": None,
        },
        "run": {
            "root": "runs",
            "keep": 0,
            "data": None,
            "storage": "shared",
            "endpoint": "",
            "region": "",
            "scratch": "",
        },
        "resources": {"shm_bytes": None, "gpu_type": None},
        "container": {"kind": "none", "is_entered": False, "workdir": None, "image": None, "options": ()},
        "mounts": (),
        "threads_per_rank": 1,
        "lifecycle": {"grace_s": 10, "time_limit_s": 0, "max_restarts": 0, "max_requeues": 0},
    }
    for name, value in changes.items():
        group, _, field = name.partition("_")
        if isinstance(values.get(group), dict) and field:
            values[group][field] = value
        else:
            values[name] = value
    values["run"]["folder"] = values["name"]
    dictionaries = ("env", "secrets")
    return SimpleNamespace(
        **{k: SimpleNamespace(**v) if isinstance(v, dict) and k not in dictionaries else v for k, v in values.items()}
    )


class Job:
    """An artifact in `folder`/artifacts/NAME/local, with the files that a compile would write."""

    options = LocalOptions(detach=False)

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.plan = plan(**changes)
        self.folder = folder
        self.artifact = folder / "artifacts" / self.plan.name / "local"
        self.runs = folder / "runs" / self.plan.name
        self.started: list[subprocess.Popen[str]] = []
        self.write_artifact()

    def write_artifact(self, identity: str = "seed = 0\n", free: str = "loop.steps = 10\n") -> None:
        (self.artifact / ".jobc").mkdir(parents=True, exist_ok=True)
        write_program(self.artifact, self.plan.uses_trainer, "local")
        for name, template in TEMPLATES.items():
            script = self.artifact / name
            script.write_text(JINJA.from_string(template.read_text()).render(plan=self.plan, options=self.options))
            script.chmod(0o755)
        (self.artifact / "train.json").write_text("{}")
        render = Render((), (), {"plan": self.plan, "options": self.options})
        tree = json.loads(emit_job_json(render, self.plan, LocalBackend(), {}).text)
        tree["place"] = f"{self.plan.run.folder}/local"
        tree |= {"identity": identity.splitlines(), "spec": free.splitlines()}
        (self.artifact / JOB).write_text(json.dumps(tree))

    def environment(self, **extra: str) -> dict[str, str]:
        """Return the caller's environment without variables of another run, plus the folder for marks."""
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("JOBC_", "TORCHELASTIC_", "PET_"))}
        return {**outer, "MARKS": str(self.marks), **extra}

    @property
    def marks(self) -> Path:
        folder = self.folder / "marks"
        folder.mkdir(exist_ok=True)
        return folder

    def start(self, word: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a verb, or a program at a path, in its own session, as from a terminal; both outputs go to one pipe."""
        program = [word] if "/" in word else [str(self.artifact / "jobctl"), word]
        process = subprocess.Popen(
            [*program, *arguments], env=self.environment(**environment), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="surrogateescape", start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, word: str, *arguments: str, **environment: str) -> tuple[int, str]:
        """Run a verb. Return its exit code and output."""
        process = self.start(word, *arguments, **environment)
        output, _ = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, output

    def runs_made(self) -> list[Path]:
        return sorted(self.runs.iterdir()) if self.runs.exists() else []

    @property
    def only_run(self) -> Path:
        (run,) = self.runs_made()
        return run

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"waited {TIMEOUT_S} s for {what}"
            time.sleep(0.02)

    def wait_for_marks(self, *names: str) -> None:
        self.wait_for(lambda: all((self.marks / name).exists() for name in names), f"marks {names}")

    def mark(self, name: str) -> str:
        return (self.marks / name).read_text()

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        for state in self.folder.glob("**/state/node_[0-9][0-9]"):
            keys = dict(line.split("=", 1) for line in state.read_text().splitlines())
            if "ended" not in keys and is_running(int(keys["pid"])):
                os.kill(int(keys["pid"]), signal.SIGKILL)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def make(folder: Path = tmp_path, **changes: Any) -> Job:
        made.append(Job(folder, **changes))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def busy_port() -> Iterator[int]:
    """Yield a TCP port on which a program is listening."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
