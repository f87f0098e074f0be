"""A site's policy from a package that jobc contains no reference to: examples/site_policy, installed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from jobc.tests.plugin.installed import Installed, install
from jobc.tests.quick_jobc import QuickJobc

LAB = Path(__file__).parents[2] / "examples" / "site_policy"
SKY = ("backend=skypilot", "backend.down=false", "storage.run=node")
GOOD = (*SKY, "time=12h", "labels.team=vision")
NOTE = "note[JC4102]"  # Slurm has no labels, and this one nobody asks for
SLURM = ("backend=slurm", "time=12h", "labels.team=vision")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, quick_jobc: QuickJobc) -> Installed:
    return install(LAB, tmp_path_factory.mktemp("lab"), quick_jobc)


def findings(printed: str) -> list[str]:
    """Return `error[JC3091]` and the like, without names."""
    return [f"{each}]" for each in re.findall(r"^(\w+\[\w+) [a-z0-9-]+\]: ", printed, re.MULTILINE)]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (GOOD, []),
        (SKY, ["error[JC3092]", "error[JC3091]"]),
        ((*GOOD, "container=pod", "image=someone/else:1"), ["error[JC3090]"]),
        ((*GOOD, "container=pod", "image=pytorch/pytorch:2.9.0"), []),
        ((*SLURM, "container=apptainer", "image=docker://pytorch/pytorch:1"), []),
        ((*SLURM, "container=apptainer", "image=docker://someone/else:1"), ["error[JC3090]"]),
        ((*SLURM, "container=apptainer", "image=registry.lab.example/../evil/x:1"), ["error[JC2033]"]),
        ((*SLURM, "+backend.extra.container-image=someone/else:1"), ["error[JC4600]"]),
        ((*SLURM, "+backend.extra.container=/images/bundle"), ["error[JC4600]"]),
        ((*SLURM, "container=pyxis", "image=pytorch/pytorch:2.9.0", "+backend.extra.comment=container-image"), []),
        ((*SLURM, "--strict"), []),
        (("time=12h", "labels.team=vision", "--strict"), []),
        ((*SLURM, "labels.phase=test"), [NOTE]),
        ((*SKY, "time=12h", "labels.team=' '"), ["error[JC3092]"]),
        ((*GOOD, "time=2d"), ["error[JC3091]"]),
        ((*GOOD, "nodes=8", "checkpoint.every_steps=5000"), ["warning[LAB01]"]),
        ((*GOOD, "nodes=8", "checkpoint.every_steps=5000", "--strict"), ["error[LAB01]"]),
        ((*GOOD, "nodes=4", "checkpoint.every_steps=5000", "--strict"), []),
    ],
    ids=[
        "a good job",
        "no time, no label",
        "an image",
        "an image of the list",
        "an image of the list as a URI",
        "an image as a URI",
        "an image that leaves the registry of the list",
        "an image as an option of Slurm",
        "a bundle of OCI as an option of Slurm",
        "an image of the list and another option of Slurm",
        "a label of which Slurm has no use",
        "a label of which this machine has no use",
        "a label more",
        "a label that says nothing",
        "time",
        "its own rule",
        "strict",
        "small",
    ],
)
def test_it_is_asked_by_every_check(words: tuple[str, ...], found: list[str], lab: Installed, tmp_path: Path) -> None:
    status, printed = lab.jobc("check", *words, folder=tmp_path)
    assert findings(printed) == found, printed
    assert status == any(each.startswith("error") for each in found)


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("registry.lab.example/*", "registry.lab.example/name:tag"),
        ("docker://pytorch/pytorch:*", "pytorch/pytorch:tag"),
        ("registry.lab.example:5000/*/train-*", "registry.lab.example:5000/name/train-name:tag"),
        ("registry.lab.example/*/train", "registry.lab.example/name/train"),
    ],
)
def test_the_image_of_the_hint_is_one_that_kubernetes_takes(
    pattern: str, image: str, lab: Installed, tmp_path: Path
) -> None:
    site = shutil.copytree(lab.site, tmp_path / "site")
    policy = f"from jobc.compiler.checks.site_policy import Policy\n\nPOLICY = Policy('lab', images=('{pattern}',))\n"
    (site / "lab_policy" / "policy.py").write_text(policy)
    volume = "mounts=[{kind: claim, source: runs, target: /shared, read_only: false}]"
    words = ("backend=kubernetes", "container=pod", volume, "storage.root=/shared/runs")
    status, printed = lab.jobc("check", *words, "image=someone/else:1", folder=tmp_path, site=site)
    assert (status, re.findall(r"hint: (.*)", printed)) == (1, [f"image={image}"])
    assert lab.jobc("check", *words, f"image={image}", folder=tmp_path, site=site) == (0, "no errors\n")


def test_a_label_that_is_asked_for_is_not_to_be_left_out(lab: Installed, tmp_path: Path) -> None:
    status, printed = lab.jobc("check", *SLURM, "labels.phase=test", folder=tmp_path)
    assert status == 0 and "ignores labels={phase: test}" in printed and "or remove labels.phase\n" in printed
    assert lab.jobc(*SLURM, "name=x", "--", "true", folder=tmp_path)[0] == 0
    job = json.loads((tmp_path / "artifacts" / "x" / "slurm" / ".jobc/job.json").read_text())
    assert "labels={team: vision}" in job["ignored"]


@pytest.mark.parametrize("word", ["LAB01", "rare-checkpoints"])
def test_its_own_code_has_a_page_and_its_warning_may_be_allowed(word: str, lab: Installed, tmp_path: Path) -> None:
    status, page = lab.jobc("explain", word, folder=tmp_path)
    assert (status, page.split("\n")[0]) == (0, "# LAB01 rare-checkpoints: a large job that rarely saves checkpoints")
    (tmp_path / "jobc" / "experiment").mkdir(parents=True)
    allowed = f"# jobc: allow {word} because it ends within the hour"
    (tmp_path / "jobc" / "experiment" / "big.yaml").write_text(
        f"# @package _global_\ncheckpoint:\n  every_steps: 5000  {allowed}\n"
    )
    assert lab.jobc("check", *GOOD, "nodes=8", "+experiment=big", "--strict", folder=tmp_path) == (0, "no errors\n")


def test_its_error_cannot_be_allowed_because_the_site_forbids_it(lab: Installed, tmp_path: Path) -> None:
    (tmp_path / "jobc" / "experiment").mkdir(parents=True)
    allowed = "# jobc: allow JC3091 because it is only this once"
    (tmp_path / "jobc" / "experiment" / "long.yaml").write_text(f"# @package _global_\ntime: 2d  {allowed}\n")
    status, printed = lab.jobc("check", *SKY, "labels.team=vision", "+experiment=long", folder=tmp_path)
    assert (status, findings(printed)) == (1, ["error[JC3091]", "error[JC3082]"])
    assert "because: policy lab forbids this setting, and a job cannot override a site policy" in printed


def test_without_the_package_nothing_is_asked(lab: Installed, tmp_path: Path) -> None:
    assert lab.jobc("check", *SKY, folder=tmp_path, site=tmp_path) == (0, "no errors\n")


@pytest.mark.parametrize(
    "text",
    [
        "import a_package_that_is_missing\n",
        "POLICY = 7\n",
        "class POLICY:\n    name = 'x'\n    check = 1\n",
        "import sys\nsys.exit()\n",
        "class POLICY:\n    name = 'x'\n    def check(spec, plan):\n        raise SystemExit(0)\n",
    ],
)
def test_a_policy_that_cannot_be_asked_lets_nothing_pass(text: str, lab: Installed, tmp_path: Path) -> None:
    site = shutil.copytree(lab.site, tmp_path / "site")
    (site / "lab_policy" / "policy.py").write_text(text)
    status, printed = lab.jobc("check", *GOOD, folder=tmp_path, site=site)
    assert status == 1 and "JC3093" in printed and "Traceback" not in printed
