"""Scripts in the styles that people have, run as they are, with default settings, in a copy of their code.

Each file of project/ is a script as its author would write it, without a word of jobc. Those that look like four public
programs are in tests/trainer/test_own_scripts.py. Most run without torch, on one rank, with the cheap launcher.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_job
from jobc.compiler.pipeline.types import Request

SOURCES = Path(__file__).parent / "project"
TIMEOUT_S = 200  # two imports of torch on a busy machine take 60 s
ONE = ("procs=1", "launcher=spawn")
TWO = ("procs=2", "launcher=spawn")


class Style(NamedTuple):
    """A command; texts that the console shows; files that the script leaves in its working directory.

    words: of jobc; code: exit code of the job
    """

    command: tuple[str, ...]
    prints: tuple[str, ...]
    writes: tuple[str, ...] = ()
    words: tuple[str, ...] = ONE
    code: int = 0


STYLES = {
    "argparse, ignored data, a bar, relative output": Style(
        ("train.py", "--lr", "0.1"), ("5/5 [#### ] lr=0.1",), ("outputs/model.bin",), ("procs=2",)
    ),
    "shell wrapper, python -m, subcommands, worker processes": Style(
        ("bash", "run.sh", "--fast"), ("training small with --fast 14",),
        ("logs/rank_0.txt", "logs/rank_1.txt"), ("procs=2",),
    ),
    "imagenet": Style(
        ("imagenet.py", "-a", "resnet50", "--epochs=2", "--resume=checkpoint.pth.tar"),
        ("=> no checkpoint found at 'checkpoint.pth.tar'", "Epoch: [1][11/20]\tLoss 3.2258e-02 (3.9046e-02)"),
        ("checkpoint.pth.tar", "model_best.pth.tar"),
    ),
    "python -m, its own --key=value": Style(
        ("python", "-m", "mingpt.chargpt", "--max_iters=2", "--learning_rate=1e-3"),
        ("command line overwriting config attribute learning_rate with 0.001", "iter 1: train loss 1.50000"),
        ("out/chargpt/config.json", "out/chargpt/args.txt", "out/chargpt/model.pt"),
    ),
    "hydra": Style(
        ("hydra_app.py", "lr=0.25", "model=large", "+extra=[1,2]"), ("training large with lr 0.25 in .",),
        ("outputs/*/job/.hydra/overrides.yaml", "outputs/*/job/hydra_app.log", "outputs/*/job/last.ckpt"),
    ),
    "omegaconf": Style(
        ("omega.py", "exp.name=mine", "train.lr=1e-3"), ("mine: 10 steps at 0.001",), ("experiments/mine/config.yaml",)
    ),
    "subfolder, sibling module, sys.path, python config": Style(
        ("tools/train.py", "configs/small.py", "--launcher", "pytorch"), ("Epoch [2][18/18]",),
        ("work_dirs/small/train.log", "work_dirs/small/epoch_2.pth"),
    ),
    "yaml and pairs": Style(
        ("detectron.py", "--config-file", "configs/base.yaml", "TRAIN.LR", "0.02"), ("lr 0.02 steps 10",),
        ("output/config.yaml",),
    ),
    "click": Style(("click_app.py", "--verbose", "fit", "--epochs", "3"), ("trained 3 epochs",), ("model.bin",)),
    "tqdm": Style(("bars.py",), ("epoch 1: 100%|", "30/30", "loss=0.033", "all epochs are done")),
    "rich": Style(("rich_bars.py",), ("Training...", "100%", "0.91 ✓")),
    "a log file of each rank": Style(
        ("log_files.py",), ("[INFO] rank 0 of 2",), ("logs/train/log_rank0.txt", "logs/train/log_rank1.txt"), TWO
    ),
    "notebook, started in its folder": Style(
        ("bash", "-c", "cd notebooks && python explore.py"), ("characters: 14",), ("figures/lengths.csv",)
    ),
    "subprocesses": Style(
        ("cross_validate.py",), ("fold 1 is done", "mean of 2 folds: 0.62"), ("results/fold_0.json",)
    ),
    "an exit code of its own": Style(("early_stop.py",), ("no improvement for", "(exit 1: exit status 3)"), code=1),
    "print of rank 0, git commit": Style(
        ("detr.py",), ("| distributed init (rank 0): env://", "  sha: ", "Training time 0:00:01 of rank 0"),
        ("exps/detr/log.txt",), TWO,
    ),
    "a question": Style(("ask.py",), ("wrote the experiment",), ("experiment/model.bin",)),
    "threads, atexit": Style(("threads.py",), ("batches 8",), ("summary.json",)),
    "a line without an end": Style(("carriage.py",), ("step 20/20 loss 0.050",)),
    "its own processes and port": Style(("spawn_self.py",), ("rank 0 got rank 1 of 2",)),
    "events in runs/": Style(("summary_writer.py",), ("tensorboard --logdir runs/",), ("runs/*/events.out.tfevents",)),
    "a tracker that is not installed": Style(("tracked.py",), ("metrics.csv only",), ("metrics.csv",)),
    "ddp, @record, gloo, loader workers": Style(("record.py",), ("trained on 2 ranks",), ("ddp.pt",), TWO),
    "fsdp2": Style(("fsdp2.py",), ("saved 2 files",), ("ckpt/step_2/.metadata",)),
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the scripts, and data that git ignores."""
    folder = tmp_path_factory.mktemp("work") / "project"
    shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "data").mkdir()
    (folder / "data/train.txt").write_text("ignored by git")
    (folder / ".gitignore").write_text("/data/\n")
    git = ("git", "-C", str(folder), "-c", "user.name=me", "-c", "user.email=me@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "scripts")):
        subprocess.run([*git, *words], check=True)
    return folder


@pytest.fixture
def runs(project: Path) -> Path:
    """The folder of the runs, empty."""
    shutil.rmtree(project / "runs", ignore_errors=True)
    return project / "runs/own"


def make(project: Path, style: Style) -> Path:
    words = ("name=own", f"python.interpreter={sys.executable}", *style.words)
    return write_job(compile_job(Request(words, style.command)), project / "artifacts")


def start(project: Path, artifact: Path, *words: str) -> subprocess.Popen[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.Popen(
        [artifact / "jobctl", *words], cwd=project, env={**os.environ, "PATH": path}, text=True, encoding="utf-8",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def run(project: Path, artifact: Path, *words: str) -> tuple[int, str]:
    process = start(project, artifact, *words)
    said = process.communicate(timeout=TIMEOUT_S)[0]
    return process.returncode, said


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("name", STYLES)
def test_a_script_runs_as_it_is_and_its_files_are_named(name: str, project: Path, runs: Path) -> None:
    style = STYLES[name]
    code, said = run(project, make(project, style), "submit")
    assert code == style.code and all(text in said for text in style.prints), said
    assert f"jobc: exit {code}: " in said
    (folder,) = runs.glob("*/code")
    assert not [path for path in style.writes if not any(folder.glob(path)) or any(project.glob(path))], said
    lines = [line for line in said.splitlines() if line.startswith("jobc: script wrote ")]
    assert len(lines) == (1 if style.writes else 0), said
    assert all(f" in {folder}: " in line for line in lines)
    named = [path for path in style.writes if "*" not in path]
    assert len(named) > 2 or all(path in lines[0] for path in named), said


@pytest.mark.engine
@pytest.mark.slow
def test_a_stop_is_saved_and_the_next_start_continues(project: Path, runs: Path) -> None:
    artifact = make(project, Style(("preempted.py",), ()))
    process = start(project, artifact, "submit", "--run-id", "one")
    wait_for_step(3, runs / "one", process)
    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C
    said = process.communicate(timeout=TIMEOUT_S)[0]
    assert process.returncode == 130 and "interrupted: saving" in said, said
    process = start(project, artifact, "submit", "--resume", "one")
    wait_for_step(9, runs / "one", process)
    assert run(project, artifact, "stop")[0] == 0
    said = process.communicate(timeout=TIMEOUT_S)[0]
    assert "from step 0\n" not in said and "interrupted: saving" in said, said
    (runs / "one/code/enough").touch()
    code, said = run(project, artifact, "submit", "--resume", "one")
    assert code == 0 and "from step " in said and not re.search(r"from step \d\n", said), said


def wait_for_step(step: int, folder: Path, process: subprocess.Popen[str]) -> None:
    log, deadline = folder / "logs/rank_00.log", time.monotonic() + TIMEOUT_S
    while not (log.exists() and f"step {step}\n" in log.read_text()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)


@pytest.mark.engine
@pytest.mark.slow
def test_a_mistake_is_mended_and_the_run_continues(project: Path, runs: Path) -> None:
    script = project / "latest.py"
    artifact = make(project, Style(("latest.py",), ()))
    code, said = run(project, artifact, "submit", "--run-id", "one")
    assert code == 1 and "starting from scratch" in said and "KeyError: 3" in said, said
    script.write_text(script.read_text().replace('2: "fox"', '2: "fox", 3: "owl"'))
    code, said = run(project, artifact, "submit", "--resume", "one", "--new-code")
    assert code == 0 and "starting from checkpoints/epoch_3.json" in said and "history: cat dog fox owl" in said, said


@pytest.mark.engine
@pytest.mark.slow
def test_the_error_of_a_recorded_main_is_the_reason(project: Path, runs: Path) -> None:
    artifact = make(project, Style(("record.py", "--fail"), ()))
    code, said = run(project, artifact, "submit")
    assert code == 1 and "ValueError: the loss is wrong" in said, said
    assert "ValueError: the loss is wrong (record.py:" in run(project, artifact, "status")[1]
