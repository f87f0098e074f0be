"""train.json is read strictly, and all mistakes are reported together."""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobc.runtime.exit_codes import DATA_BROKEN
from jobc.trainer.config import rules, train_json
from jobc.trainer.config import schema as config
from jobc.trainer.config.parse import to_json_types
from jobc.trainer.config.train_json import identity_keys
from jobc.trainer.lifecycle.errors import BrokenInput

from ..conftest import DIGITS
from ..ways import FSDP, HSDP, ZERO

MLP = {"kind": "mlp", "hidden": 4, "layers": 1}
Tree = Callable[..., dict[str, Any]]


def problems(tree: object) -> tuple[str, ...]:
    with pytest.raises(BrokenInput) as caught:
        train_json.parse_train_config(tree)
    assert caught.value.code == DATA_BROKEN
    return caught.value.details


def test_a_good_file_survives_the_round_trip(gpt: Tree, digits: Tree, tmp_path: Path) -> None:
    for tree in (gpt(), digits()):
        path = tmp_path / "train.json"
        path.write_text(json.dumps(to_json_types(train_json.parse_train_config(tree))))
        assert train_json.load_train_json(path) == train_json.parse_train_config(tree)
        assert json.loads(path.read_text()) == tree


def test_all_mistakes_are_told_at_once(gpt: Tree) -> None:
    tree = gpt({"optim.lr": "fast", "seed": True, "checkpoint.keep": 1, "loop.precision": "fp8"})
    del tree["job"]
    tree["model"]["widht"] = 3
    told = problems(tree)
    assert {line.split(":")[0] for line in told} == {
        "optim.lr",
        "seed",
        "checkpoint.keep",
        "loop.precision",
        "job",
        "model.widht",
    }
    assert "model.widht: unknown key, did you mean width?" in told


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("seed", 1.0, "expected an integer"),
        ("seed", -1, "must be from 0"),
        ("optim.lr", None, "expected a number, found null"),
        ("optim.lr", 10**400, "expected a number"),
        ("optim.betas", [0.9], "expected a list of 2"),
        ("optim.betas", [0.9, 1.0], "betas[1]: must be at least 0 and below 1"),
        ("optim.clip_norm", 0, "must be above 0"),
        ("data.max_bytes", "all", "expected an integer"),
        ("model.kind", "rnn", "expected one of gpt, mlp"),
        ("model", None, "expected an object"),
        ("loop.compile", True, "expected one of none, model, blocks"),
        ("loop.drop_last", 1, "expected true or false"),
        ("schema", 2, "must be 1"),
        ("batch.global", 17, "is not micro 96 x accumulation 1 x world_size 1 = 96"),
        ("loop.epochs", 3, "set exactly one of steps and epochs"),
        ("checkpoint.every_epochs", 3, "set exactly one of every_steps and every_epochs"),
        ("checkpoint.every_epochs", 0, "must be at least 1"),
        ("model.width", 33, "is not a multiple of model.heads"),
        ("model", MLP, "mlp cannot read data.kind stdlib_bytes"),
        ("parallel", {**HSDP, "shards": 3}, "shards: 3 does not divide world_size 1"),
        ("parallel.kind", "fsdp2", "expected one of ddp, fsdp, hsdp, deepspeed"),
        ("loop.activation_checkpointing", -1, "must be at least 0"),
    ],
)
def test_a_mistake_is_told_with_its_path(gpt: Tree, path: str, value: object, words: str) -> None:
    told = problems(gpt({path: value}))
    assert len(told) == 1
    assert words in told[0]
    assert told[0].startswith(path.split(".")[0])


@pytest.mark.parametrize(
    ("parallel", "loop"),
    [(FSDP, {"loop.compile": "model"}), (ZERO, {"loop.compile": "blocks"}), (ZERO, {"loop.precision": "fp16"})],
)
def test_what_a_way_to_share_cannot_do_is_told(gpt: Tree, parallel: dict[str, Any], loop: dict[str, Any]) -> None:
    (key,) = loop
    (told,) = problems(gpt({"parallel": parallel, **loop}))
    assert told.startswith(key)


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"seed": NaN}', '{"seed": 1, "seed": 2}', "\ud800"])
def test_a_broken_file_is_one_message(text: str, tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(BrokenInput, match=r"train\.json"):
        train_json.load_train_json(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(section=st.sampled_from(sorted(DIGITS)), value=JSON)
def test_any_value_anywhere_is_a_config_or_a_message(section: str, value: object) -> None:
    try:
        train_json.parse_train_config({**DIGITS, section: value})
        for key in DIGITS[section] if isinstance(DIGITS[section], dict) else ():
            train_json.parse_train_config({**DIGITS, section: {**DIGITS[section], key: value}})
    except BrokenInput as error:
        assert error.details


def test_identity_holds_what_the_run_is(gpt: Tree) -> None:
    before = identity_keys(train_json.parse_train_config(gpt()))
    free = identity_keys(
        train_json.parse_train_config(
            gpt({"world_size": 2, "batch.micro": 48, "loop.steps": 99, "metrics.every_steps": 1})
        )
    )
    assert free == before
    for path, value in {"model.width": 64, "data.max_bytes": 1000, "seed": 1, "optim.lr": 0.5}.items():
        changed = identity_keys(train_json.parse_train_config(gpt({path: value})))
        assert {key for key in changed if changed[key] != before[key]} == {path}


def test_no_field_has_a_default_and_every_field_is_explained_in_conf() -> None:
    conf = "".join(path.read_text() for path in (Path(config.__file__).parents[2] / "conf").rglob("*.yaml"))
    for kind in vars(config).values():
        if dataclasses.is_dataclass(kind):
            for one in dataclasses.fields(kind):
                assert one.default is dataclasses.MISSING
                if one.name != "kind" and not dataclasses.is_dataclass(one.type) and "Config" not in str(one.type):
                    in_conf = re.search(rf"^ *{one.name.rstrip('_')}: .*# \w", conf, re.MULTILINE)
                    assert in_conf or one.name in (kind.__doc__ or ""), f"{kind.__name__}.{one.name}"


def test_every_limit_names_a_key_that_exists(gpt: Tree, digits: Tree) -> None:
    shared = {"parallel": {"reduce_bucket_size": 1, "shards": 1, "min_num_params": 1}}
    tokens = {"data": {"vocabulary": 1, "samples": 1, "val_samples": 1}}
    steps = {"profile.steps": [1, 2]}
    trees = (gpt(steps), digits(steps), shared, tokens)
    for path in rules.LIMITS:
        first, *rest = path.replace("[", ".").replace("]", "").split(".")
        if not any(_has(tree, [first, *rest]) for tree in trees):
            pytest.fail(f"rules.LIMITS[{path!r}] limits nothing")


def _has(tree: Any, keys: list[str]) -> bool:
    for key in keys:
        if isinstance(tree, list):
            tree = tree[int(key)]
        elif key in tree:
            tree = tree[key]
        else:
            return False
    return True


def test_the_compiler_can_read_configs_without_torch() -> None:
    code = "import jobc.trainer.config.schema, jobc.trainer.dist.env, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
