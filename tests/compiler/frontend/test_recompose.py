"""A compile that takes over the merged files of another gives what Hydra gives, and sees every change of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.frontend.compose import compose_config, hydra_ready
from jobc.compiler.frontend.compose_cache import recompose
from jobc.compiler.frontend.overrides import read_overrides
from jobc.compiler.pipeline.compile import compile_job, known_keys, search_path
from jobc.compiler.pipeline.types import Request
from jobc.compiler.spec.job_spec import open_keys

WORDS = [
    ("backend=ssh", "nodes=2", "hosts=[a,b]"),
    ("backend=slurm", "parallel=fsdp", "optim.lr=0.5", "env.A=b", "+labels.team=a"),
    ("+experiment=qwen_image", "backend=kubernetes", "~batch.global", "time=null"),
    ("backend=slurm", "nodes=8", "nodes=4", "task=digits", "mounts=[{kind: host, source: /a, target: /b}]"),
]
OF_HYDRA = [  # a group replaced; an option that is not there; a key that is not; a setting of Hydra
    ("model={kind: gpt, layers: 2}", "model.layers=3"), ("optim=none_such",), ("~env.B",), ("hydra.verbose=true",),
]  # fmt: skip


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_it_is_what_hydra_composes_kept_and_again(words: tuple[str, ...]) -> None:
    folders = search_path(Request(words))
    overrides = read_overrides(words, open_keys(words))
    with hydra_ready(folders) as loader:
        wanted = plain(compose_config(loader, "config", overrides, known_keys)[0])
        recompose(tuple(folder.path for folder in folders), "config", overrides)
        for _ in range(2):
            got = recompose(tuple(folder.path for folder in folders), "config", overrides)
            assert got is not None
            assert repr(plain(got)) == repr(wanted)  # with the places of the values


@pytest.mark.parametrize("words", OF_HYDRA, ids=" ".join)
def test_what_hydra_alone_can_tell_is_left_to_it(words: tuple[str, ...]) -> None:
    folders = search_path(Request(words))
    with hydra_ready(folders):
        for _ in range(2):
            assert recompose(tuple(folder.path for folder in folders), "config", read_overrides(words)) is None


def plain(config: DictConfig) -> dict[str, Any]:
    """Without Hydra's section, but for the choices in it."""
    tree: Any = OmegaConf.to_container(config)
    return {**tree, "hydra": tree["hydra"]["runtime"]["choices"]}


def test_a_change_of_any_file_is_seen(tmp_path: Path) -> None:
    project, user = tmp_path / "project", tmp_path / "user"
    for folder in (project / "cluster", user / "cluster"):
        folder.mkdir(parents=True)
    lab = "# @package _global_\nname: {}\n"
    (user / "cluster" / "lab.yaml").write_text(lab.format("one"))
    request = Request(("backend=local", "cluster=lab"), config_dirs=(("project", project), ("user", user)))

    def name() -> str:
        return compile_job(request).plan.name

    assert name() == name() == name() == "one"
    (user / "cluster" / "lab.yaml").write_text(lab.format("two"))
    assert name() == "two"
    (project / "cluster" / "lab.yaml").write_text(lab.format("its"))  # hides the user's
    assert name() == name() == "its"
    (project / "config.yaml").write_text("seed: 5\n")
    assert compile_job(request).plan.train["seed"] == 5
    (project / "config.yaml").unlink()
    (project / "cluster" / "lab.yaml").unlink()
    assert name() == "two"
    (user / "cluster" / "lab.yaml").unlink()
    with pytest.raises(CompileError):
        name()
