"""Kind: exceptions of readers. Someone else's checkpoint with correct hashes, whose files contain anything.

Each reader loads tensors and plain values, or raises BrokenInput with one line; nothing in the file is executed.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import pickle
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jobc.tests.trainer.test_script import alone
from jobc.trainer import export
from jobc.trainer.checkpoint import safe_pickle, save_and_resume, store, verified_checkpoint
from jobc.trainer.checkpoint.random_state import capture_random_state
from jobc.trainer.data.exactly_once import ExactlyOnceCheck
from jobc.trainer.data.order import SampleOrder
from jobc.trainer.dist.process_group import RankGroup
from jobc.trainer.lifecycle.errors import BrokenInput

ALONE = RankGroup(0, 1, torch.device("cpu"))


class Exploit:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        import os

        return os.mkdir, (str(self.mark),)


def torch_file(value: object, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def zip_of(**files: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"archive/{name}", content)
    return file.getvalue()


FILES: dict[str, Callable[[Path], bytes]] = {
    "a pickle": lambda mark: pickle.dumps(Exploit(mark)),
    "a pickle of protocol 0": lambda mark: pickle.dumps(Exploit(mark), protocol=0),
    "a file of torch.save": lambda mark: torch_file(Exploit(mark)),
    "an old file of torch.save": lambda mark: torch_file(Exploit(mark), _use_new_zipfile_serialization=False),
    "an exploit among tensors": lambda mark: torch_file({"weight": torch.ones(2), "more": [Exploit(mark)]}),
    "a zip with a pickle": lambda mark: zip_of(**{"data.pkl": pickle.dumps(Exploit(mark)), "version": b"3\n"}),
    "a zip without a pickle": lambda mark: zip_of(x=b"y"),
    "a truncated file": lambda mark: torch_file({"weight": torch.ones(2)})[:200],
    "an empty file": lambda mark: b"",
    "zeros": lambda mark: bytes(4096),
    "text": lambda mark: b"hello",
    "a module": lambda mark: torch_file(torch.nn.Linear(1, 1)),
}


def found_in(folder: Path, **files: bytes) -> verified_checkpoint.VerifiedCheckpoint:
    """Write a checkpoint whose manifest has the right sizes and hashes, as any author can."""
    root = folder / "checkpoints"
    store.save_checkpoint(root, 1, {name.replace("_", "."): content for name, content in files.items()}, keep=1)
    found = verified_checkpoint.newest_verified(root, ALONE)
    assert found is not None
    return found


def refused(action: Callable[[], object]) -> str:
    with pytest.raises(BrokenInput) as caught:
        action()
    text = str(caught.value)
    assert "Re-running" not in text and "weights_only" not in text, text  # torch's advice to run the code
    assert len(text.splitlines()) <= 4 and len(text) < 700, text
    return text


@pytest.mark.parametrize("what", FILES)
@pytest.mark.parametrize("name", ["weights.pt", "optimizer.pt", "rng.pt", "state.pt"])
def test_a_file_of_a_checkpoint_is_loaded_without_running_code(name: str, what: str, tmp_path: Path) -> None:
    found = found_in(tmp_path, **{name.replace(".", "_"): FILES[what](tmp_path / "mark")})
    assert f"step_00000001/{name} " in refused(lambda: found.load_file(name))
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("what", FILES)
def test_the_reason_is_in_the_words_of_torch_without_its_advice(what: str, tmp_path: Path) -> None:
    try:
        torch.load(io.BytesIO(FILES[what](tmp_path / "mark")), weights_only=True)
    except Exception as error:
        said = safe_pickle.shorten_load_error(error)
    assert said and "\n" not in said and "Re-running" not in said


# ---- JSON of a checkpoint

STATES: dict[str, bytes] = {
    "empty": b"",
    "a list": b"[1]",
    "a number": b"1",
    "not UTF-8": b'{"step": "\xff"}',
    "100,000 brackets": b"[" * 100_000,
    "a huge integer": b'{"step": ' + b"9" * 100_000 + b', "world_size": 1, "identity": {}}',
    "a step of text": b'{"step": "1", "world_size": 1, "identity": {}}',
    "a negative step": b'{"step": -1, "world_size": 1, "identity": {}}',
    "a true step": b'{"step": true, "world_size": 1, "identity": {}}',
    "no step": b'{"world_size": 1, "identity": {}}',
    "a world size as a list": b'{"step": 1, "world_size": [1], "identity": {}}',
    "an identity of text": b'{"step": 1, "world_size": 1, "identity": "x"}',
    "parts as a list": b'{"step": 1, "world_size": 1, "identity": {}, "parts": [1]}',
    "a part of text": b'{"step": 1, "world_size": 1, "identity": {}, "parts": {"data": "x"}}',
    "NaN": b'{"step": NaN, "world_size": 1, "identity": {}}',
}


@pytest.mark.parametrize("what", STATES)
def test_a_forged_state_json_is_one_line(what: str, tmp_path: Path) -> None:
    found = found_in(tmp_path, state_json=STATES[what])
    assert "state.json" in refused(lambda: save_and_resume._read_trainer_state(found))


@pytest.mark.parametrize("saved", [None, 1, "text", [], {}, [torch.ones(3)], [torch.zeros(9000)], torch.ones(1, 5)])
def test_a_forged_random_state_is_one_line(saved: object, tmp_path: Path) -> None:
    found = found_in(tmp_path, x=b"")
    before = capture_random_state(ALONE.device)
    assert "rng.pt has no random state for rank 0" in refused(lambda: found.set_random_state(saved))
    assert torch.equal(capture_random_state(ALONE.device), before)


@pytest.mark.parametrize("value", [None, 1, "text", [1, 2], {"weight": "text"}, {1: 2}])
def test_forged_weights_do_not_fit_the_model_and_are_one_line(value: Any) -> None:
    refused(
        lambda: save_and_resume._load_or_reject(
            torch.nn.Linear(1, 1).load_state_dict, value, "was saved from a different model"
        )
    )


BOMB = base64.b64encode(zlib.compress(bytes(20_000_000), 9)).decode()
PROOF = {"epoch": 0, "first_step": 0, "seen": "", "num_fed": 0, "num_padding": 0}


@pytest.mark.parametrize(
    "changes",
    [{"seen": BOMB}, {"seen": "AAAA"}, {"seen": 1}, {"first_step": [1]}, {"num_fed": "x"}, {"num_padding": None}],
    ids=["bomb", "not zlib", "seen of number", "first step", "num fed", "num padding"],
)
def test_a_forged_note_of_the_data_is_one_line(changes: dict[str, Any]) -> None:
    refused(lambda: ExactlyOnceCheck(SampleOrder(0, 10, 2, False), ALONE, 1, {**PROOF, **changes}))


# ---- the result of a training: final/


def final(folder: Path, weights: bytes, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "weights.pt").write_bytes(weights)
    model = {"kind": "mlp", "hidden": 4, "layers": 1}
    sidecar = {
        "format": 1, "model": model, "recipe": None, "num_inputs": 2, "num_classes": 2,
        "weights_sha256": hashlib.sha256(weights).hexdigest(), **changes,
    }  # fmt: skip
    (folder / "model.json").write_text(json.dumps(sidecar))
    return folder


@pytest.mark.parametrize("what", FILES)
def test_the_weights_of_a_result_run_no_code(what: str, tmp_path: Path) -> None:
    folder = final(tmp_path / "final", FILES[what](tmp_path / "mark"))
    assert "weights.pt" in refused(lambda: export.load(folder))
    assert not (tmp_path / "mark").exists()


def test_a_result_that_names_code_is_loaded_only_when_it_is_trusted(tmp_path: Path) -> None:
    target = {"_target_": "os.mkdir", "path": str(tmp_path / "mark")}
    folder = final(tmp_path / "final", torch_file({}), model=target)
    assert "loading would run the code os.mkdir" in refused(lambda: export.load(folder))
    assert not (tmp_path / "mark").exists()
    refused(lambda: export.load(folder, trusted=True))
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("content", [b"", b"[1]", b"[" * 100_000, b"\xff", b'{"num_inputs": "x"}'])
def test_a_forged_model_json_is_one_line(content: bytes, tmp_path: Path) -> None:
    folder = final(tmp_path / "final", torch_file({}))
    (folder / "model.json").write_bytes(content)
    assert "model.json" in refused(lambda: export.load(folder))


@pytest.mark.parametrize("changes", [{"model": 1}, {"model": None}, {"num_inputs": -1}, {"num_classes": 1e9}])
def test_a_forged_value_in_model_json_is_one_line(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = final(tmp_path / "final", torch_file({}), **changes)
    assert "model.json" in refused(lambda: export.load(folder))


# ---- a script of the user's own


def test_a_script_that_loads_a_forged_checkpoint_ends_with_one_line(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    state = json.dumps({"step": 1, "world_size": 1}).encode()
    for name, content in {"exploit": torch_file(Exploit(mark)), "tensor": torch_file(torch.ones(2))}.items():
        files = {"state.pt": content, "rng.pt": torch_file([]), "state.json": state}
        store.save_checkpoint(tmp_path / name / "run" / "checkpoints", 1, files, keep=1)
        done = alone("rt.load()", tmp_path / name)
        assert done.returncode == 65, done.stderr
        assert [line.split()[0] for line in done.stderr.splitlines()] == ["error:"] and "state.pt" in done.stderr
    assert not mark.exists()
