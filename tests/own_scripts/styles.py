"""Scripts in common styles, as data: the command, its output, and the files that it leaves.

Each file in project/ is a script as its author would write it without jobc. ../scripts has stand-ins for four public
programs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent / "project"
PUBLIC = Path(__file__).parents[1] / "scripts"
GUARD = 'if __name__ == "__main__":\n    '
REASON = "RuntimeError: the labels are wrong"
MISTAKE = f'{GUARD}raise RuntimeError("the labels are wrong")\n'
WAIT = f'{GUARD}print("it waits", flush=True)\n    __import__("time").sleep(600)\n'


class Style(NamedTuple):
    """A command; texts that the console shows; files that the script leaves in its working directory.

    code: exit code of the job; file: the script that may have a mistake, if it is not the first word; at_start: whether
    the mistake is in its first lines, because the script cannot run twice, or never reaches its last line;
    overrides: what the script needs from jobc
    """

    command: tuple[str, ...]
    prints: tuple[str, ...]
    writes: tuple[str, ...] = ()
    ranks: int = 1
    code: int = 0
    file: str = ""
    at_start: bool = False
    overrides: tuple[str, ...] = ()

    def edit(self, project: Path, lines: str) -> None:
        """Write the script with these lines added at the start or the end; without lines, as its author wrote it."""
        name = self.file or self.command[0]
        original = (SOURCES / name if (SOURCES / name).exists() else PUBLIC / name).read_text()
        (project / name).write_text(
            f"{lines}{original}" if self.at_start else f"{original}\n{lines}" if lines else original
        )


STYLES = {
    "argparse, ignored data, a bar, relative output": Style(
        ("train.py", "--lr", "0.1"), ("5/5 [#### ] lr=0.1",), ("outputs/model.bin",), 2, at_start=True
    ),
    "shell wrapper, python -m, subcommands, worker processes": Style(
        ("bash", "run.sh", "--fast"), ("training small with --fast 14",),
        ("logs/rank_0.txt", "logs/rank_1.txt"), 2, file="pkg/cli.py",
    ),
    "imagenet": Style(
        ("imagenet.py", "-a", "resnet50", "--epochs=2", "--resume=checkpoint.pth.tar"),
        ("=> no checkpoint found at 'checkpoint.pth.tar'", "Epoch: [1][11/20]\tLoss 3.2258e-02 (3.9046e-02)"),
        ("checkpoint.pth.tar", "model_best.pth.tar"),
    ),
    "python -m, its own --key=value": Style(
        ("python", "-m", "mingpt.chargpt", "--max_iters=2", "--learning_rate=1e-3"),
        ("command line overwriting config attribute learning_rate with 0.001", "iter 1: train loss 1.50000"),
        ("out/chargpt/config.json", "out/chargpt/args.txt", "out/chargpt/model.pt"), file="mingpt/chargpt.py",
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
    "click": Style(
        ("click_app.py", "--verbose", "fit", "--epochs", "3"), ("trained 3 epochs",), ("model.bin",), at_start=True
    ),
    "tqdm": Style(("bars.py",), ("epoch 1: 100%|", "30/30", "loss=0.033", "all epochs are done")),
    "rich": Style(("rich_bars.py",), ("Training...", "100%", "0.91 ✓")),
    "a log file of each rank": Style(
        ("log_files.py",), ("[INFO] rank 0 of 2",), ("logs/train/log_rank0.txt", "logs/train/log_rank1.txt"), 2
    ),
    "notebook, started in its folder": Style(
        ("bash", "-c", "cd notebooks && python explore.py"), ("characters: 14",), ("figures/lengths.csv",),
        file="notebooks/explore.py",
    ),
    "subprocesses": Style(
        ("cross_validate.py",), ("fold 1 is done", "mean of 2 folds: 0.62"), ("results/fold_0.json",)
    ),
    "an exit code of its own": Style(
        ("early_stop.py",), ("no improvement for", "(exit status 3)"), code=1, at_start=True
    ),
    "print of rank 0, git commit": Style(
        ("detr.py",), ("| distributed init (rank 0): env://", "  sha: ", "Training time 0:00:01 of rank 0"),
        ("exps/detr/log.txt",), 2,
    ),
    "a question": Style(("ask.py",), ("wrote the experiment",), ("experiment/model.bin",)),
    "threads, atexit": Style(("threads.py",), ("batches 8",), ("summary.json",)),
    "a line without an end": Style(("carriage.py",), ("step 20/20 loss 0.050",)),
    "its own processes and port": Style(("spawn_self.py",), ("rank 0 got rank 1 of 2",)),
    "events in runs/": Style(("summary_writer.py",), ("tensorboard --logdir runs/",), ("runs/*/events.out.tfevents",)),
    "a tracker that is not installed": Style(("tracked.py",), ("metrics.csv only",), ("metrics.csv",)),
    "ddp, @record, gloo, loader workers": Style(("record.py",), ("trained on 2 ranks",), ("ddp.pt",), 2),
    "fsdp2": Style(("fsdp2.py",), ("saved 2 files",), ("ckpt/step_2/.metadata",)),
    "continues from its newest file": Style(
        ("latest.py",), ("KeyError: 3",), ("checkpoints/epoch_3.json",), code=1, at_start=True
    ),
    "wandb offline": Style(("with_wandb.py",), ("20/20", "kept 1 run"), ("wandb/offline-run-*/run-*.wandb",)),
    "plain DDP, a snapshot": Style(("ddp_tutorial.py", "2", "1"), ("Epoch 0 |",), ("snapshot.pt",), 2),
    "nanoGPT": Style(("nano.py", "--device=cpu", "--backend=gloo"), ("iter 5: loss",), ("out/ckpt.pt",), 2),
    "accelerate": Style(
        ("with_accelerate.py", "--cpu", "--epochs=2"), ("epoch 0: loss", "of 2 processes"),
        ("accelerate_state/model.safetensors",), 2,
    ),
    "HF Trainer, its bar": Style(
        ("with_hf_trainer.py", "--output_dir=out", "--use_cpu", "--report_to=none", "--logging_steps=1",
         "--per_device_train_batch_size=4", "--save_steps=2", "--max_steps=4"),
        ("'loss': ", "4/4"), ("out/checkpoint-4/model.safetensors",), 2,
        at_start=True,
    ),
    "Lightning": Style(
        ("with_lightning.py",), ("trained on 2 ranks",), ("final.ckpt", "lightning_logs/version_0/hparams.yaml"), 2
    ),
    "Lightning Fabric": Style(("with_fabric.py",), ("mean loss of 2 ranks: 0.",), ("fabric.ckpt",), 2),
    "ignite": Style(("with_ignite.py",), ("Epoch 2: loss of 2 ranks",), ("ignite.pt",), 2),
    "DeepSpeed": Style(("with_deepspeed.py",), ("step 4 on 2 ranks",), ("deepspeed_ckpt/zero_to_fp32.py",), 2),
    "mpi4py": Style(
        ("with_mpi4py.py",), ("mean over 2 ranks: 0.5",), ("mean.npy",), 2, overrides=("launcher=mpirun",)
    ),
}  # fmt: skip


def make_project(folder: Path) -> Path:
    """Make a repository with the scripts, and data that git ignores."""
    for source in (PUBLIC, SOURCES):
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    (folder / "data").mkdir()
    (folder / "data/train.txt").write_text("ignored by git")
    (folder / ".gitignore").write_text("/data/\n")
    git = ("git", "-C", str(folder), "-c", "user.name=me", "-c", "user.email=me@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "scripts")):
        subprocess.run([*git, *words], check=True)
    return folder
