"""A value's position is that of its text, even if the group's option was chosen elsewhere."""

from __future__ import annotations

import json

import yaml

from jobc.compiler.diagnostics.origin import Origin
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest


def origin(key: str, *words: str) -> Origin | None:
    return compile_job(CompileRequest(words)).source_map.spec[key].origin


def test_a_list_comes_from_the_file_that_an_override_chose() -> None:
    for words in ((), ("optim=adamw",)):
        place = origin("optim.betas", *words)
        assert place is not None and (place.root, place.path) == ("jobc", "conf/optim/adamw.yaml")


def test_a_list_that_was_typed_comes_from_the_command_line() -> None:
    place = origin("optim.betas", "optim=adamw", "optim.betas=[0.8,0.9]")
    assert place is not None and place.path == "optim.betas=[0.8,0.9]"


def test_a_mapping_that_was_typed_whole_comes_from_the_command_line() -> None:
    place = origin("env.A", "python=none", "env={A: 1}")
    assert place is not None and place.path == "env={A: 1}"


def test_spec_yaml_has_the_names_that_the_user_chose() -> None:
    """A field of the spec may end in _ because Python reserves the word; a variable's name is the user's."""
    job = compile_job(CompileRequest(("backend=local", "env.END_=1", "labels.by_=me"), ("train.py",)))
    (spec,) = (yaml.safe_load(file.text) for file in job.artifacts if file.path == "spec.yaml")
    assert spec["env"] == {"END_": "1"} and spec["labels"] == {"by_": "me"}


def test_spec_yaml_shows_options_of_the_backend_with_their_units() -> None:
    job = compile_job(CompileRequest(("backend=kubernetes", "image=x", "backend.deadline=90m")))
    (spec,) = (yaml.safe_load(file.text) for file in job.artifacts if file.path == "spec.yaml")
    assert (spec["backend"]["deadline"], spec["backend"]["shm_limit"]) == ("1h30m", "16GiB")


def test_an_own_script_leaves_unset_trainer_keys_out_of_spec_yaml() -> None:
    job = compile_job(CompileRequest(("backend=local", "optim.lr=0.1"), ("train.py",)))
    files = {file.path: file.text for file in job.artifacts}
    spec, record = yaml.safe_load(files["spec.yaml"]), json.loads(files[".jobc/job.json"])
    assert spec["optim"] == {"lr": 0.1} and spec["parallel"] == {"kind": "ddp"}
    assert not {"model", "data", "loop", "checkpoint"} & spec.keys() and spec["storage"]["root"] == "runs"
    assert not [line for line in record["plan"] if line.startswith("train.")]
