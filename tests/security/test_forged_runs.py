"""jobc ls in a run root that another user has filled: it follows nothing, waits for nothing, and prints nothing raw."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.cli import main

from .users import NEIGHBOUR

SECRET = "text of a private file"
ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\r\n"
FILES = (
    "state/run", "state/node_00", "state/node_00.lock", "state/job_0", "state/mirror", "control/STOP", "exit/0/node_00",
    "exit/0/first", "metrics/rank_00.jsonl", "artifact/0/.jobc/job.json", "artifact/0/hosts.txt",
)  # fmt: skip
HOSTILE_TEXT = [
    ESCAPES, "\0" * 100, "[" * 100_000, "9" * 10_000, '{"backend": "\\u001b[2J", "nodes": -1}', '{"nodes": 1e400}',
    '{"backend": ["x"], "nodes": true, "job": null}', '{"step": 999999999999999999, "loss": 1e9999}\n',
    '{"step": 1, "loss": 1e-9999}\n', f"host={ESCAPES}\npid=1\nattempt=0\nexit={'9' * 30}\n", "exit=-1\nended=x\n",
    "exit=0\nreason=\x1b[2J\u202e\n", "started=999999999999999999\nended=999999999999999999\n", "\udcff",
]  # fmt: skip


def make_run(folder: Path) -> Path:
    for name in FILES[:2] + FILES[8:10]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def put(file: Path) -> Path:
    """The path of a file, free to be created."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    return file


def listed(capsys: pytest.CaptureFixture[str], folder: Path) -> list[dict[str, Any]]:
    """The rows of `jobc ls`, whose two outputs are safe."""
    began = time.monotonic()
    outputs = []
    for words in ([], ["--format", "json"]):
        assert main(["ls", str(folder), *words]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        outputs.append(captured.out)
        assert captured.out.replace("\n", "").isprintable()
        assert SECRET not in captured.out and "Traceback" not in captured.out
    assert time.monotonic() - began < 20, "nothing is waited for"
    assert outputs[0].isascii()
    assert max(map(len, outputs[0].splitlines())) <= 80
    rows: list[dict[str, Any]] = json.loads(outputs[1], parse_constant=pytest.fail)["runs"]
    assert len(rows) == outputs[0].count("\n") - 1
    json.dumps(rows, ensure_ascii=False).encode()  # no half of a surrogate pair
    return rows


@pytest.mark.parametrize("text", HOSTILE_TEXT, ids=range(len(HOSTILE_TEXT)))
def test_text_of_every_file_stays_data(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    for index, name in enumerate(FILES):
        run = make_run(tmp_path / f"runs/demo/r{index}")
        put(run / name).write_text(text, errors="surrogateescape")
    assert len(listed(capsys, tmp_path / "runs")) == len(FILES)


PLANTS: dict[str, Callable[[Path, Path], object]] = {
    "fifo": lambda path, _: os.mkfifo(path),
    "link": lambda path, secret: path.symlink_to(secret),
    "loop": lambda path, _: path.symlink_to(path.name),
    "folder": lambda path, _: path.mkdir(),
    "sparse": lambda path, _: (path.touch(), os.truncate(path, 1 << 40)),
}


@pytest.mark.parametrize("kind", PLANTS)
def test_what_is_no_small_file_is_neither_waited_for_nor_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"backend={SECRET}\nreason={SECRET}\n")
    for index, name in enumerate(FILES):
        PLANTS[kind](put(make_run(tmp_path / f"runs/demo/r{index}") / name), secret)
    assert len(listed(capsys, tmp_path / "runs")) == len(FILES)


def test_names_of_folders_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (f"a{ESCAPES.strip()}b", "line\nfeed", os.fsdecode(b"\xff"), "zero\u200bwidth", "-rf", "x" * 200):
        make_run(tmp_path / "runs" / name / "r")
    make_run(tmp_path / "runs/demo" / "r\x1b[2J")
    make_run(tmp_path / "runs/demo" / ("r" * 200))
    assert len(listed(capsys, tmp_path / "runs")) == 7, "a run ID is letters, digits, dot, dash and underscore"


def test_a_link_in_a_run_is_not_counted_and_a_deep_tree_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "runs/demo/r")
    (run / "checkpoints").symlink_to("/usr")
    (run / "code").symlink_to("/")
    deep = run / "logs"
    for _ in range(200):
        deep /= "d" * 15
    deep.mkdir(parents=True)
    (row,) = listed(capsys, tmp_path / "runs")
    assert row["size_is_complete"] and row["size_bytes"] < 1 << 22


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_run_of_another_user_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "runs/demo/theirs")
    (run / "artifact/0/.jobc/job.json").write_text(json.dumps({"backend": "forged", "nodes": 1}))
    (run / "state/node_00").write_text("host=away\npid=1\nstart_ticks=1\nattempt=0\n")
    os.chown(run, NEIGHBOUR, NEIGHBOUR)
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in (run, *run.rglob("*")))
    (row,) = listed(capsys, tmp_path / "runs")
    assert (row["state"], row["backend"], row["size_bytes"]) == ("of another user", "", None)
    assert sorted((str(path), path.lstat().st_mtime_ns) for path in (run, *run.rglob("*"))) == before
