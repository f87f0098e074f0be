"""The file name that the user gives to the log of a batch job on Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobc.backends.slurm.engine.link_named_log import expand_log_name, link_log

from .batch_bed import Bed

NAMES = {"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "train", "SLURM_ARRAY_JOB_ID": "11", "SLURM_ARRAY_TASK_ID": "3"}


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("logs/%x-%j.out", "logs/train-12.out"),
        ("%A_%a.log", "11_3.log"),
        ("%4j%%", "0012%"),
        ("%s%t", "batch0"),
        ("/dev/null", "/dev/null"),
        ("%z", "%z"),
    ],
)
def test_the_name_of_a_log_is_expanded_as_sbatch_does(pattern: str, name: str) -> None:
    assert expand_log_name(pattern, NAMES) == name


def test_the_log_has_the_name_in_the_settings_too(tmp_path: Path) -> None:
    bed = Bed(tmp_path, output="logs/%x-%j.out")
    (bed.run / "logs").mkdir()
    (bed.run / "logs/slurm-7.log").write_text("the log\n")
    assert bed(SLURM_JOB_NAME="train") == (0, "")
    assert (tmp_path / "logs/train-7.out").read_text() == "the log\n"
    assert bed(SLURM_JOB_NAME="train")[0] == 0, "a requeue links the same name again"


def test_a_file_with_the_name_of_the_log_stays(tmp_path: Path) -> None:
    bed = Bed(tmp_path, output="train.out")
    (bed.run / "logs").mkdir()
    (bed.run / "logs/slurm-7.log").write_text("the log\n")
    (tmp_path / "train.out").write_text("by hand\n")
    where = tmp_path / "train.out"
    assert bed() == (0, f"warning: cannot link the log as {where}: the existing file was not created by jobc\n")
    assert where.read_text() == "by hand\n"


@pytest.mark.parametrize(
    ("target", "stays"),
    [
        ("own/train.log", True),
        ("gone/train.log", True),
        ("own/logs/slurm-3.log", True),
        ("gone/logs/slurm-3.log", True),
        ("runs/job/a/logs/slurm-3.log", False),
        ("runs/other/removed/logs/slurm-3.log", False),
        ("elsewhere/job/b/logs/slurm-3.log", False),
    ],
)
def test_a_symlink_with_the_name_of_the_log_is_replaced_only_if_it_leads_to_one_of_a_run(
    tmp_path: Path, target: str, stays: bool
) -> None:
    log, link = tmp_path / "runs/job/a/logs/slurm-7.log", tmp_path / "train.out"
    (tmp_path / "elsewhere/job/b/artifact").mkdir(parents=True)
    for name in ("own/train.log", "own/logs/slurm-3.log", "elsewhere/job/b/state/run"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    log.parent.mkdir(parents=True)
    log.write_text("")
    link.symlink_to(tmp_path / target)
    assert bool(link_log(log, "train.out", tmp_path, {})) == stays
    assert os.readlink(link) == str(tmp_path / target if stays else log)


def test_a_name_that_cannot_be_created_is_a_warning(tmp_path: Path) -> None:
    bed = Bed(tmp_path, output="file/train.out")
    (bed.run / "logs").mkdir()
    (bed.run / "logs/slurm-7.log").write_text("the log\n")
    (tmp_path / "file").write_text("")
    code, printed = bed()
    assert code == 0 and printed.startswith("warning: cannot create ")


def test_without_a_log_in_the_run_folder_there_is_no_link(tmp_path: Path) -> None:
    assert Bed(tmp_path, output="train.out")()[0] == 0
    assert not (tmp_path / "train.out").is_symlink()
