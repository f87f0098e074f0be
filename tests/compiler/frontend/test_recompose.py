"""A compile that reuses another one's merged files has the same result as Hydra, and detects every change in the
files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra import compose as hydra_compose
from omegaconf import DictConfig, OmegaConf

from jobc.compiler.diagnostics.diagnostic import CompileError, Diagnostic
from jobc.compiler.frontend.compose import compose_hydra_config, hydra_session
from jobc.compiler.frontend.compose_cache import COMPOSE_ERRORS, compose_from_cache
from jobc.compiler.frontend.overrides import parse_overrides
from jobc.compiler.pipeline.compile import compile_job, config_search_path
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.spec.job_spec import open_keys

WORDS = [
    ("backend=ssh", "nodes=2", "hosts=[a,b]"),
    ("backend=slurm", "parallel=fsdp", "optim.lr=0.5", "env.A=b", "+labels.team=a"),
    ("+experiment=qwen_image", "backend=kubernetes", "~batch.global", "time=null"),
    ("backend=slurm", "nodes=8", "nodes=4", "task=digits", "mounts=[{kind: host, source: /a, target: /b}]"),
]
REJECTED = [  # no such option, with no such key; no such keys; a null group; values that do not fit
    ("optim=none_such", "no=1"), ("~env.B",), ("name=x", "optim.rl=1", "no.key=2"), ("model=null",), ("+seed=3",),
    ("++optim=adamw",), ("parallel@other=fsdp", "no=1"), ("hosts.a=b",), ("labels=[a]",), ("model={kind: gpt}", "no=1"),
]  # fmt: skip


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_it_is_what_hydra_composes_kept_and_again(words: tuple[str, ...]) -> None:
    folders = config_search_path(CompileRequest(words))
    overrides = parse_overrides(words, open_keys(words))
    with hydra_session(folders) as loader:
        wanted = plain(compose_hydra_config(loader, "config", overrides)[0])
        compose_from_cache(tuple(folder.path for folder in folders), "config", overrides)
        for _ in range(2):
            got = compose_from_cache(tuple(folder.path for folder in folders), "config", overrides)
            assert repr(plain(got)) == repr(wanted)  # with the places of the values


@pytest.mark.parametrize("words", [*REJECTED, ("model={kind: gpt, layers: 2}", "model.layers=3")], ids=" ".join)
def test_it_raises_what_hydra_raises(words: tuple[str, ...]) -> None:
    folders = config_search_path(CompileRequest(words))
    canonical = [o.canonical for o in parse_overrides(words)]

    def answer(compose: Callable[[], DictConfig]) -> object:
        try:
            return plain(compose())
        except COMPOSE_ERRORS as error:
            return type(error), str(error), str(error.__cause__)

    with hydra_session(folders):
        wanted = answer(lambda: hydra_compose("config", canonical, return_hydra_config=True))
        for _ in range(2):
            got = answer(lambda: compose_from_cache(tuple(f.path for f in folders), "config", parse_overrides(words)))
            assert got == wanted


@pytest.mark.parametrize("words", REJECTED, ids=" ".join)
def test_the_diagnostics_are_the_same_when_composed_again(words: tuple[str, ...]) -> None:
    folders, overrides = config_search_path(CompileRequest(words)), parse_overrides(words)

    def diagnostics(cached: bool) -> list[Diagnostic]:
        with hydra_session(folders) as loader, pytest.raises(CompileError) as raised:
            compose_hydra_config(loader, "config", overrides, cached)
        return list(raised.value.diagnostics)

    assert diagnostics(cached=False) == diagnostics(cached=True)


def plain(config: DictConfig) -> dict[str, Any]:
    """Return the config as plain data, without Hydra's section except its choices."""
    tree: Any = OmegaConf.to_container(config)
    return {**tree, "hydra": tree["hydra"]["runtime"]["choices"]}


def test_a_change_of_any_file_is_seen(tmp_path: Path) -> None:
    project, user = tmp_path / "project", tmp_path / "user"
    for folder in (project / "cluster", user / "cluster"):
        folder.mkdir(parents=True)
    lab = "# @package _global_\nname: {}\n"
    (user / "cluster" / "lab.yaml").write_text(lab.format("one"))
    request = CompileRequest(("backend=local", "cluster=lab"), config_dirs=(("project", project), ("user", user)))

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
