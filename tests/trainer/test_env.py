"""The environment contract is read whole or refused whole."""

import dataclasses
from pathlib import Path

import pytest

from jobc.trainer.env import LAUNCHER_NAMES, TABLE, Env, field_name, read
from jobc.trainer.errors import BrokenInput
from jobc.trainer.rt.exit_codes import DATA_BROKEN

LAUNCHED = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
}


def test_no_launcher_means_one_process() -> None:
    env = read({"PATH": "/bin", "MASTER_ADDR": "somewhere"})
    assert (env.rank, env.world_size, env.local_rank, env.local_world_size) == (0, 1, 0, 1)


def test_torchruns_names_are_read() -> None:
    env = read(LAUNCHED)
    assert (env.rank, env.world_size, env.group_rank, env.master_port) == (3, 4, 1, 29500)


def test_optional_values_have_their_type() -> None:
    env = read({"JOBC_RUN_DIR": "/runs/a b", "JOBC_ATTEMPT": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"})
    assert (env.run_dir, env.attempt, env.torchelastic_use_agent_store) == (Path("/runs/a b"), 2, True)


def test_an_empty_value_is_not_set() -> None:
    assert read({"RANK": "", "JOBC_INIT_FROM": ""}).init_from is None


@pytest.mark.parametrize("missing", LAUNCHER_NAMES)
def test_a_half_set_launcher_is_refused(missing: str) -> None:
    with pytest.raises(BrokenInput) as caught:
        read({name: value for name, value in LAUNCHED.items() if name != missing})
    assert caught.value.code == DATA_BROKEN
    assert [line.split(":")[0] for line in caught.value.details] == [missing]


def test_everything_wrong_is_reported_at_once() -> None:
    broken = {**LAUNCHED, "RANK": "one", "MASTER_PORT": "70000", "JOBC_ATTEMPT": "-1"}
    with pytest.raises(BrokenInput) as caught:
        read(broken, needed=("JOBC_TRAIN_JSON",))
    names = {line.split(":")[0] for line in caught.value.details}
    assert names == {"RANK", "MASTER_PORT", "JOBC_ATTEMPT", "JOBC_TRAIN_JSON"}


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK"])
def test_a_rank_outside_its_world_is_refused(name: str) -> None:
    with pytest.raises(BrokenInput, match=f"{name}: 4 is not below"):
        read({**LAUNCHED, name: "4"})


def test_table_and_values_name_the_same_things() -> None:
    assert {field_name(row.name) for row in TABLE} == {field.name for field in dataclasses.fields(Env)}
