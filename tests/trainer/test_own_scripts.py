"""Programs that do not use jobc: stand-ins for four kinds of public script run unchanged until they stop or end.

Each runs through torchrun and through spawn. Programs with trainer/script.py run under jobc and under torchrun alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.trainer.forked import run_forked

SCRIPTS = Path(__file__).parents[1] / "scripts"
TIMEOUT_S = 200  # an import of transformers on a busy machine takes 40 s

HF = (
    "with_hf_trainer.py", "--output_dir=out", "--use_cpu", "--report_to=none", "--disable_tqdm=true",
    "--per_device_train_batch_size=4", "--logging_steps=1", "--save_steps=2", "--max_steps",
)  # fmt: skip
# kind: (a short run, a long one, what rank 0 prints when it trains, a file that it leaves)
KINDS = {
    "ddp tutorial": (("ddp_tutorial.py", "2", "1"), ("ddp_tutorial.py", "1000000", "1"), r"Epoch 0 \|", "snapshot.pt"),
    "nanoGPT": (
        ("nano.py", "--device=cpu", "--backend=gloo"),
        ("nano.py", "--device=cpu", "--backend=gloo", "--max_iters=100000000"), r"iter 5: loss", "out/ckpt.pt",
    ),
    "accelerate": (
        ("with_accelerate.py", "--cpu", "--epochs=2"), ("with_accelerate.py", "--cpu", "--epochs=1000000"),
        "epoch 0: loss .* of 2 processes", "accelerate_state/model.safetensors",
    ),
    "HF Trainer": ((*HF, "4"), (*HF, "100000000"), "'loss': ", "out/checkpoint-4/model.safetensors"),
}  # fmt: skip


@dataclass
class Job:
    """A compiled job in a project folder with the stand-ins, and the processes started from it."""

    project: Path
    artifact: Path
    started: list[subprocess.Popen[str]]

    def start(self, *words: str) -> subprocess.Popen[str]:
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("JOBC_", "TORCHELASTIC_", "ACCELERATE_"))}
        self.started.append(
            subprocess.Popen(
                [self.artifact / "jobctl", "submit", *words], cwd=self.project, env=outer, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )
        )  # fmt: skip
        return self.started[-1]

    def run(self, *words: str) -> tuple[int, str]:
        process = self.start(*words)
        said = process.communicate(timeout=TIMEOUT_S)[0]
        return process.returncode, said

    def status(self) -> str:
        command = [self.artifact / "jobctl", "status"]
        return subprocess.run(command, cwd=self.project, capture_output=True, text=True, check=False).stdout

    @property
    def folder(self) -> Path:
        (folder,) = self.project.glob("runs/*/*")
        return folder

    def wait_for(self, pattern: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not any(re.search(pattern, log.read_text()) for log in self.project.glob("runs/*/*/logs/rank_00.log")):
            assert time.monotonic() < deadline and self.started[-1].poll() is None, "it does not train"
            time.sleep(0.1)

    def stop(self) -> tuple[int, int, str]:
        """Return (exit code of jobctl stop, exit code of jobctl submit, output of jobctl submit)."""
        code = subprocess.run(
            [self.artifact / "jobctl", "stop"], cwd=self.project, capture_output=True, check=False
        ).returncode
        said = self.started[-1].communicate(timeout=60)[0]
        return code, self.started[-1].returncode, said


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SCRIPTS, tmp_path / "my project", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def jobs() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.communicate()


def make(project: Path, started: list[subprocess.Popen[str]], *words: str, command: tuple[str, ...]) -> Job:
    base = ("name=own", "procs=2", f"python.interpreter={sys.executable}", "lifecycle.grace=20s", "code=shared")
    return Job(
        project,
        write_compiled_job(compile_job(CompileRequest((*base, *words), command)), project / "artifacts"),
        started,
    )


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_public_kind_of_script_runs_unchanged_and_stops(
    kind: str, project: Path, jobs: list[subprocess.Popen[str]]
) -> None:
    short, long, trains, file = KINDS[kind]
    if kind not in ("ddp tutorial", "HF Trainer"):  # nanoGPT does as little about a signal as these
        stops_when_told(project, jobs, long, trains)
    if kind == "accelerate":
        return  # tests/backends/test_accelerate_runs.py has one that runs to its end
    job = make(project, jobs, "launcher=spawn", "name=short", command=short)
    code, said = job.run()
    assert code == 0 and re.search(trains, said), said
    assert (project / file).exists()


def stops_when_told(project: Path, jobs: list[subprocess.Popen[str]], command: tuple[str, ...], trains: str) -> None:
    job = make(project, jobs, "launcher=torchrun", command=command)
    job.start()
    job.wait_for(trains)
    code_if_ending, code, said = job.stop()
    assert (code_if_ending, code) == (0, 0) and "jobc: exit 0: stopped" in said, said
    assert "stopped" in job.status()
    for left in project.glob("out*"):
        shutil.rmtree(left)
    (project / "snapshot.pt").unlink(missing_ok=True)


@pytest.mark.engine
def test_the_traceback_of_a_script_is_shown_first(project: Path, jobs: list[subprocess.Popen[str]]) -> None:
    command = ("nano.py", "--device=cpu", "--backend=gloo", "--gradient_accumulation_steps=3")
    code, said = make(project, jobs, "launcher=torchrun", command=command).run()
    traceback = said[said.index("Traceback (most recent call last):") :].splitlines()  # of rank 0, or the first to fail
    assert code == 1 and "AssertionError" in "\n".join(traceback[:8]), said
    assert re.search(r"jobc: rank \d failed first \(exit 1\)", said), said


# ---- with the helper

ALONE = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def lib(job: Job) -> dict[str, str]:
    """Return the environment of a user who has extracted jobctl from an artifact, and does not have jobc."""
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("JOBC_", "TORCHELASTIC_", "PYTHONPATH"))}
    return {**outer, "PYTHONPATH": str(job.artifact / "jobctl"), "OMP_NUM_THREADS": "1"}


@pytest.mark.engine
@pytest.mark.slow
def test_a_script_with_the_helper_goes_on_where_it_was_with_jobc_and_without(
    project: Path, jobs: list[subprocess.Popen[str]]
) -> None:
    job = make(project, jobs, "launcher=spawn", command=("with_helper.py", "40", "0.1"))
    first = job.start()
    job.wait_for("step 12 ")
    asked = job.folder / "control" / "SAVE"
    asked.touch()
    job.wait_for(r"saved checkpoints/step_000000(?!10)")  # step 10 is saved in any case
    first.terminate()  # as a scheduler does
    said = first.communicate(timeout=TIMEOUT_S)[0]
    assert first.returncode == 75 and len(re.findall("saved checkpoints/step_", said)) >= 3, said
    assert not asked.exists()
    assert re.search(r"^  node 00 .* step \d+, loss ", job.status(), re.MULTILINE), job.status()
    code, resumed = job.run("--resume", job.folder.name)
    assert code == 0 and "starts at step 1" in resumed, resumed
    steps = [json.loads(line)["step"] for line in (job.folder / "metrics/rank_01.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 41))
    alone = subprocess.run(
        [*ALONE, "with_helper.py", "40"], cwd=project, env=lib(job), capture_output=True, text=True, check=False
    )
    assert alone.returncode == 0, alone.stdout + alone.stderr
    weights = re.findall(r"^weights .*", alone.stdout, re.MULTILINE)
    assert weights and weights == re.findall(r"^weights .*", resumed, re.MULTILINE)
    assert (project / "run/checkpoints/step_00000040/MANIFEST.json").exists()


@pytest.mark.parametrize(
    ("work", "code", "told"),
    [
        ("rt.save(1, {'model': torch.nn.Linear(1, 1)})", 65, "may only contain tensors, numbers and text"),
        (
            'state = b\'{"step": 3, "world_size": 1, "identity": {}}\';'
            " store.save_checkpoint(rt.run_dir / 'checkpoints', 3, {'state.json': state}, keep=2); rt.load()",
            65,
            "step_00000003 was saved by the trainer, not by a script",
        ),
        ("1 / 0", 1, "ZeroDiv"),
    ],
)
def test_an_error_below_the_helper_has_its_code(
    work: str, code: int, told: str, project: Path, jobs: list[subprocess.Popen[str]]
) -> None:
    job = make(project, jobs, command=("true",))
    imports = "import torch; from jobc_trainer import script; from jobc_trainer.checkpoint import store"
    done = run_forked(f"{imports}; rt = script.init(); {work}", project, lib(job))
    assert done.returncode == code and told in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("sys.exit('no good')", 1, "no good"),
        ("sys.exit(3)", 1, "exit status 3"),
        ("raise SystemExit(65)", 65, "rank 1 failed first (exit 65)"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("os._exit(65)", 65, "rank 1 failed first (exit 65)"),
    ],
)
def test_however_one_rank_ends_it_is_the_one_that_failed_and_its_code_counts(
    end: str, code: int, told: str, project: Path, jobs: list[subprocess.Popen[str]]
) -> None:
    """What launchers do with a code: tests/runtime/test_exit_codes.py."""
    program = f"import os, sys\nfrom jobc_trainer import script\nrt = script.init()\nif rt.rank == 1: {end}\n"
    (project / "ends.py").write_text(f"{program}rt.preempted()\nrt.finish()\n")
    ended, said = make(project, jobs, "launcher=spawn", command=("ends.py",)).run()
    assert ended == code and "jobc: rank 1 failed first (exit " in said and told in said, said
