"""`_target_` from the command line and from files to train.json: text and arguments, nothing is imported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.sweeps import plan_sweep
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest

EXAMPLE = Path(__file__).parents[3] / "examples" / "bring_your_own" / "jobc"
NET = ("model=target", "model._target_=no_such_module.Net", "model.context=64")


def compiled(*words: str) -> CompiledJob:
    return compile_job(CompileRequest(words, config_dirs=(("project", EXAMPLE),)))


def text(job: CompiledJob, path: str) -> str:
    return next(file.text for file in job.artifacts if file.path == path)


def train_json(*words: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(text(compiled(*words), "train.json"))
    return tree


def test_arguments_keep_their_types_and_need_no_plus() -> None:
    words = ("model.width=64", "model.rate=1e-3", "model.wide=true", "model.sizes=[1, a, null]")
    norm = "model.norm={_target_: torch.nn.LayerNorm, normalized_shape: [64]}"
    assert train_json(*NET, *words, norm)["model"] == {
        "_target_": "no_such_module.Net", "context": 64, "width": 64, "rate": 1e-3, "wide": True,
        "sizes": [1, "a", None], "norm": {"_target_": "torch.nn.LayerNorm", "normalized_shape": [64]},
    }  # fmt: skip


def test_text_in_quotes_stays_text() -> None:
    words = (
        "model.a='7'", 'model.b="true"', "model.c={x: '01', y: 7, z: 1}",
        "model.d=[1,'1',{e: '1.5'}]", "model.f='7'", "model.f=7", "model.g=[1,'2']", "model.g=[1,2]",
        "model.c={w: '8'}", "model.c.v='9'",
    )  # fmt: skip
    model = train_json(*NET, *words)["model"]
    assert {key: model[key] for key in "abcdfg"} == {
        "a": "7", "b": "true", "c": {"x": "01", "y": 7, "z": 1, "w": "8", "v": "9"}, "d": [1, "1", {"e": "1.5"}],
        "f": 7, "g": [1, 2],
    }  # fmt: skip


def test_a_sweep_keeps_quotes_and_so_do_the_words_of_its_points() -> None:
    request = CompileRequest((*NET, "model.a='7',[7,'7'],8", "model.b=7,true"))
    points = plan_sweep(request)
    trees = [(plan.spec.model["a"], plan.spec.model["b"]) for plan in points]
    assert trees == [(a, b) for a in ("7", (7, "7"), 8) for b in (7, True)]
    for planned in points:
        assert planned.point is not None
        alone = compile_job(replace(request, words=planned.point.words)).spec.model
        assert repr(alone) == repr(planned.spec.model)


def test_the_example_compiles_and_brings_its_code() -> None:
    job = compiled("+experiment=waves", "data.val.size=7")
    tree = json.loads(text(job, "train.json"))
    assert tree["data"]["val"] == {"_target_": "my_pkg.data.Waves", "size": 7, "first": 500}
    assert tree["optim"]["momentum"] == 0.9
    assert tree["optim"]["warmup_steps"] == 20  # of jobc's optim/target.yaml
    assert job.plan.code.kind == "snapshot"
    assert compiled("optim=target", "optim._target_=torch.optim.SGD").plan.code.kind == "lib"  # torch already exists


def test_a_line_of_train_json_knows_its_argument() -> None:
    job = compiled(*NET, "model.width=64")
    line = text(job, "train.json").splitlines().index('    "width": 64')
    keys, _ = job.source_map.files["train.json"][line]
    assert job.source_map.spec_keys(keys) == ("model.width",)
    assert job.source_map.spec["model.width"].origin is not None


def test_what_a_run_is_includes_targets_and_the_recipe() -> None:
    said = json.loads(text(compiled(*NET, "model.width=64", "recipe=my_pkg.Mine"), ".jobc/job.json"))["identity"]
    assert {'model._target_ = "no_such_module.Net"', "model.width = 64", 'recipe = "my_pkg.Mine"'} <= set(said)
    assert not any(line.startswith("loader.") for line in said)  # who reads the data may change


@pytest.mark.parametrize(
    ("words", "code", "key"),
    [
        (("+model._target_=my_pkg.Net",), "JC2090", "model._target_"),
        (("data=target",), "JC2091", "data._target_"),
        (("loss=target", "loss._target_=mse"), "JC2092", "loss._target_"),
        ((*NET, "model._partial_=true"), "JC2092", "model._partial_"),
        (
            ("data=target", "data._target_=my_pkg.Waves"),
            "JC2020",
            "model._target_",
        ),  # the gpt is made for data of jobc's own
        ((*NET[:2],), "JC2020", "model.context"),
        (("optim=target", "optim._target_=torch.optim.SGD", "optim.schedule=steep"), "JC2020", "optim.schedule"),
        (("loader.workers=-1",), "JC2020", "loader.workers"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], code: str, key: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(*words)
    assert [(found.code, found.key) for found in caught.value.diagnostics] == [(code, key)]
