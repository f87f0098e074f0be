"""Files written by someone else never hang, crash or flood jobc: they cause one diagnostic or have no effect."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobc.compiler.cli import command_line, main
from jobc.compiler.emit import job_json
from jobc.compiler.emit.artifact_dir import artifact_digest
from jobc.compiler.emit.job_json import JOB
from jobc.runtime.run_folder import run_folder
from jobc.runtime.storage import bucket_manifest
from jobc.runtime.system.untrusted_files import MIB, Unreadable, read_bytes, read_json, read_text
from jobc.tests.checkpoints import newest_verified
from jobc.trainer.checkpoint import store
from jobc.trainer.config import train_json
from jobc.trainer.lifecycle.errors import BrokenInput
from jobc.trainer.loop import metrics


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 200 * MIB)


def bytes_of(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a symlink loop": lambda path: path.symlink_to(path.name),
    "a symlink to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a symlink to /dev/tty": lambda path: path.symlink_to("/dev/tty"),
    "a symlink to nothing": lambda path: path.symlink_to("nothing"),
    "an empty file": bytes_of(b""),
    "not UTF-8": bytes_of(b'{"key": "\xff\xfe"}\n'),
    "NUL bytes": bytes_of(b"\0" * 4096),
    "100,000 brackets": bytes_of(b"[" * 100_000),
    "900 levels": bytes_of(b"[" * 900 + b"]" * 900),
    "100,000 mappings": bytes_of(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "1e400": bytes_of(b'{"step": 1e400}\n'),
    "NaN": bytes_of(b'{"step": NaN}\n'),
    "a huge integer": bytes_of(b'{"step": ' + b"9" * 500_000 + b"}\n"),
    "a repeated key": bytes_of(b'{"a": 1, "a": 2}'),
    "half a surrogate pair": bytes_of(b'{"a": "\\ud800"}'),
    "an escaped NUL": bytes_of(b'{"a\\u0000": 1}'),
    "200 MiB of nothing": sparse,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_the_reader_refuses_each_hostile_file_at_once_with_a_phrase(what: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    HOSTILE[what](path)
    begin = time.monotonic()
    with pytest.raises(Unreadable) as refused:
        read_json(path)
    assert time.monotonic() - begin < 5
    assert refused.value.reason.startswith(("is ", "has ", "contains ", "does not ", "cannot "))
    assert len(refused.value.reason) < 120 and "\n" not in refused.value.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a\xff", "is not valid UTF-8 (byte 1)"),
        (b"a\0", "is not text: it has a NUL character (byte 1)"),
        (b"aaaaa", "is larger than 4 bytes"),
    ],
)
def test_text_of_another_kind_is_refused_with_the_reason(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(Unreadable) as refused:
        read_text(tmp_path / "file", 4)
    assert refused.value.reason == reason


def test_a_link_is_followed_only_where_the_caller_wants_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    assert read_bytes(tmp_path / "link") == b"x"
    with pytest.raises(Unreadable, match="is a symbolic link, not a regular file"):
        read_bytes(tmp_path / "link", follow=False)


def test_a_missing_file_is_told_from_an_unreadable_one(tmp_path: Path) -> None:
    with pytest.raises(Unreadable) as refused:
        read_bytes(tmp_path / "file" / "below")
    assert refused.value.missing
    (tmp_path / "file").mkdir()
    with pytest.raises(Unreadable) as refused:
        read_bytes(tmp_path / "file")
    assert not refused.value.missing


# ---- commands that read an artifact or a run folder

BASE = ["name=a", "backend=local"]
COMMANDS = {
    "verify": ["verify", "DIR"],
    "why a line": ["why", "DIR/launch.sh:3"],
    "why a key": ["why", "DIR", "nodes"],
    "diff": ["diff", "DIR"],
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an output folder with one artifact directory."""
    out = tmp_path_factory.mktemp("written")
    assert main([*BASE, "--out", str(out)]) == 0
    return out


@pytest.fixture
def artifact(written: Path) -> Iterator[Path]:
    """Yield that artifact directory; a file that a test replaces is restored."""
    folder = written / "a" / "local"
    yield folder
    for kept in written.glob("kept*"):
        put_back(kept, folder)


def replaced(folder: Path, name: str) -> Path:
    """Yield the path of a file that was moved out of the artifact."""
    file = folder / name
    file.rename(folder.parent.parent / f"kept{name.replace('/', '+')}")
    return file


def put_back(kept: Path, folder: Path) -> None:
    file = folder / kept.name.removeprefix("kept").replace("+", "/")
    if file.is_dir() and not file.is_symlink():
        file.rmdir()
    kept.replace(file)


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_job_file_gives_one_answer_and_no_traceback(
    what: str, artifact: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    HOSTILE[what](replaced(artifact, JOB))
    for command, words in COMMANDS.items():
        answered(words, artifact, capfd, command)


def answered(words: list[str], folder: Path, capfd: pytest.CaptureFixture[str], what: str) -> None:
    begin, computed = time.monotonic(), time.process_time()
    status = main([word.replace("DIR", str(folder)) for word in words])
    said = capfd.readouterr()
    assert time.process_time() - computed < 5 and time.monotonic() - begin < 30, what  # others load the machine
    assert status in (0, 1, 2) and "Traceback" not in said.err and "JC9" not in said.err + said.out, (what, said)
    assert status == 0 or said.err or said.out, what


@pytest.mark.parametrize(
    "plan",
    [
        None,
        {},
        [],
        [1],
        ["topology.procs = 0"],
        ['topology.world_size = "x"'],
        ["launcher = {}"],
        ["a"],
        ["x = " + "[" * 2000],
        ["x = 1e400"],
    ],
    ids=str,
)
def test_a_forged_plan_gives_one_answer(plan: object, artifact: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its checksums fit, so nothing but its lines shows that it is forged."""
    tree = json.loads((artifact / JOB).read_text())
    tree["plan"] = plan
    tree["checksums"][JOB]["sha256"] = job_json.checksum_without_seal(tree)
    tree["digest"] = artifact_digest(tree["checksums"])
    replaced(artifact, JOB).write_text(job_json.to_canonical_text(tree))
    for command in (*filter(lambda name: name.startswith("why"), COMMANDS), "diff"):
        answered(COMMANDS[command], artifact, capfd, command)


LARGE: dict[str, Callable[[Path], object]] = {
    "a million equal lines": bytes_of(b"\n" * 1_000_000),
    "aliases that double": bytes_of(
        b"a0: &a0 [1, 1]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (i, i, i - 1, i - 1) for i in range(1, 40))
    ),
}


@pytest.mark.parametrize("what", ["a named pipe", "a directory", "not UTF-8", "100,000 brackets", *LARGE])
@pytest.mark.parametrize("name", ["launch.sh", "train.json", "spec.yaml"])
def test_a_hostile_file_of_an_artifact_gives_one_answer(
    name: str, what: str, artifact: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    {**HOSTILE, **LARGE}[what](replaced(artifact, name))
    for command, words in COMMANDS.items():
        answered(words, artifact, capfd, f"{what}: {command}")


@pytest.mark.parametrize(
    "line",
    [
        '{"loss": 1, "step": [[1]], "step_s": {"a": 1}}',
        '{"loss": 1, "step": 1, "step_s": 1, "attempt": {}}',
        '{"loss": 1, "step": 1, "step_s": 1e400}',
        '{"loss": 1, "step": 1, "step_s": ' + "9" * 5000 + "}",
        "[" * 9000,
    ],
)
def test_forged_metrics_of_a_run_are_no_time_of_a_step(
    line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "rank_00.jsonl").write_text(line + "\n")
    status = main(["plan", *BASE, f"estimate.run={tmp_path}"])
    said = capfd.readouterr()
    assert status in (0, 1) and "JC9" not in said.err


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_metrics_and_train_json_of_a_run_give_one_answer(
    what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    metrics, train = tmp_path / "metrics" / "rank_00.jsonl", tmp_path / "artifact" / "0" / "train.json"
    metrics.parent.mkdir()
    HOSTILE[what](metrics)
    answered(["plan", *BASE, f"estimate.run={tmp_path}"], tmp_path, capfd, what)
    shutil.rmtree(metrics) if metrics.is_dir() and not metrics.is_symlink() else metrics.unlink()
    metrics.write_text('{"loss": 1, "step": 1, "step_s": 0.5, "attempt": 0}\n')
    train.parent.mkdir(parents=True)
    HOSTILE[what](train)
    answered(["plan", *BASE, f"estimate.run={tmp_path}"], tmp_path, capfd, what)


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_input_that_is_too_large_is_one_diagnostic(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def raises(*_: object) -> int:
        raise error

    monkeypatch.setattr(command_line, "_run_command", raises)
    assert main(["check"]) == 1
    assert "error[JC1001 unreadable-file]: the input is too large" in capfd.readouterr().err


# ---- checkpoints


def manifest_of(files: dict[str, object], **more: object) -> bytes:
    tree = {"format": 1, "step": 1, "files": files, **more}
    return json.dumps({**tree, store.SEAL: store._manifest_hash(tree)}).encode()


SOUND = {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
CHECKPOINTS: dict[str, Callable[[Path], object]] = {
    **{what: lambda folder, make=make: make(folder / store.MANIFEST) for what, make in HOSTILE.items()},
    **{
        f"a file named {name!r}": bytes_of_manifest
        for name in ("../../outside", "/etc/hostname", "..", ".", "", "a/b", "a\0")
        for bytes_of_manifest in [
            lambda folder, name=name: (folder / store.MANIFEST).write_bytes(manifest_of({name: SOUND}))
        ]
    },
    "a file that is a link": lambda folder: [
        (folder / store.MANIFEST).write_bytes(manifest_of({"a": SOUND})),
        (folder / "a").symlink_to(folder.parent.parent / "outside"),
    ],
    "a file that is a named pipe": lambda folder: [
        (folder / store.MANIFEST).write_bytes(manifest_of({"a": SOUND})),
        os.mkfifo(folder / "a"),
    ],
    "a size of text": lambda folder: (folder / store.MANIFEST).write_bytes(manifest_of({"a": {**SOUND, "size": "1"}})),
    "files as a list": lambda folder: (folder / store.MANIFEST).write_bytes(manifest_of([1])),  # type: ignore[arg-type]
    "a huge loss": lambda folder: (folder / store.MANIFEST).write_bytes(manifest_of({"a": SOUND}, val_loss=10**90)),
}


@pytest.mark.parametrize("what", CHECKPOINTS)
def test_a_hostile_checkpoint_is_damaged_and_nothing_outside_is_read(what: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    folder = tmp_path / "checkpoints" / "step_00000001"
    folder.mkdir(parents=True)
    CHECKPOINTS[what](folder)
    begin = time.monotonic()
    found, damaged = newest_verified(folder.parent)
    assert found is None and len(damaged) == 1 and "\n" not in damaged[0] and len(damaged[0]) < 300
    store.val_loss_of(folder)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("name", ["../../outside", "/etc/hostname", "..", "", "a/b"])
def test_a_manifest_of_a_bucket_that_names_a_path_is_none(name: str) -> None:
    assert bucket_manifest.parse_manifest_entries(manifest_of({name: SOUND})) is None
    assert bucket_manifest.parse_manifest_entries(manifest_of({"a": SOUND})) == {"a": (1, SOUND["sha256"])}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_state_file_is_none(what: str, tmp_path: Path) -> None:
    HOSTILE[what](tmp_path / "node_00")
    found = run_folder.read_small_file(tmp_path / "node_00")
    assert found is None or found == run_folder.parse_small_file((tmp_path / "node_00").read_bytes())
    assert metrics.last_step_in_file(tmp_path / "node_00") == 0


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_train_json_is_one_error(what: str, tmp_path: Path) -> None:
    HOSTILE[what](tmp_path / "train.json")
    with pytest.raises(BrokenInput, match=r"train\.json"):
        train_json.load_train_json(tmp_path / "train.json")
