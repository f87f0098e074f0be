"""Text in state files and names in a run folder is never evaluated: no command runs, no script breaks, none hangs.

A run folder is forged with one hostile value, and every script that reads it is run. A command in the value would
create the file MARK; bash would report a value that it takes for a number.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.tests.packed import compile_here

LIMIT_S = 90  # of one script, which takes less than one on an idle machine; a hang is endless
BROKEN = re.compile(r"syntax error|unbound variable|invalid number|bad array|bad substitution|: line \d+: |warning: ")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
CODE = "x[$(touch MARK)]"
PAYLOADS = (
    CODE, "a[0$(touch MARK)]", "$(touch MARK)", "`touch MARK`", "1;touch MARK", "$((x[$(touch MARK)]))", "1e30",
    "9" * 31,
    "-1", "-2", "08", "", "1\nexit=x[$(touch MARK)]", "--all", "../../x", "%s%n%(%F)T", "\x1b]0;title\x07\x9b31m\u202e",
    "=", "[@]",
)  # fmt: skip
NODE = {
    "host": socket.gethostname(), "pid": "999999", "start_ticks": "1", "attempt": "0", "started": "1700000000",
    "first_rank": "0", "ended": "1700000100", "exit": "1", "reason": "rank 0: exit 1",
}  # fmt: skip
RUN = {
    "job": "demo", "created": "1700000000", "project": "/nonexistent", "artifact": "/nonexistent", "init_from": "",
    "arguments": '["7"]', "env": '{"A": "1"}',
}  # fmt: skip
FIRST = {"node": "0", "rank": "0", "time_ns": "1", "reason": "rank 0: exit 1"}
FIELDS = (
    *(("state/node_00", key) for key in NODE), *(("state/run", key) for key in RUN), ("state/resume", "command"),
    ("exit/0/first", "code"), *(("exit/0/first", key) for key in FIRST), ("exit/0/node_00", "code"),
    ("metrics/rank_00.jsonl", "step"), ("metrics/rank_00.jsonl", "loss"),
)  # fmt: skip


def artifact_of(project: Path, *overrides: str) -> Path:
    """Compile a job that runs nothing; the folder with its scripts."""
    (project / "p.py").write_text("")
    compile_here(project, "compile", "name=demo", "command=[python3,p.py]", "gpus=0", *overrides)
    backend = next(word.removeprefix("backend=") for word in overrides if word.startswith("backend="))
    return project / "artifacts" / "demo" / backend


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artifact_of(tmp_path_factory.mktemp("local"), "backend=local", "nodes=1", "code=none")


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artifact_of(tmp_path_factory.mktemp("ssh"), "backend=ssh", "nodes=2", "hosts=[node1,node2]", "code=none")


def forge(root: Path, name: str = "r", **texts: str) -> Path:
    """Create a failed run in root/demo; texts replace or add files, with __ for a slash and no suffix for .jsonl."""
    run = root / "demo" / name
    files = {
        "state/run": lines(RUN), "state/node_00": lines(NODE), "state/resume": "command=jobctl submit --resume r\n",
        "exit/0/first": "1\n" + lines(FIRST), "exit/0/node_00": "1\nreason=exit 1\n", "logs/node_00.log": "hello\n",
        "logs/rank_00.log": "Traceback (most recent call last)\n",
        "metrics/rank_00.jsonl": '{"step": 3, "loss": 1.5}\n',
        **{path.replace("__", "/"): text for path, text in texts.items()},
    }  # fmt: skip
    for path, text in files.items():
        (run / path).parent.mkdir(parents=True, exist_ok=True)
        (run / path).write_text(text, errors="surrogateescape")
    (run / "artifact" / "0" / ".jobc").mkdir(parents=True, exist_ok=True)
    no_resume = '{"identity": ["seed = 1"], "spec": []}'
    (run / "artifact" / "0" / ".jobc" / "job.json").write_text(no_resume)
    return run


def lines(keys: dict[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in keys.items())


def forge_field(root: Path, name: str, path: str, key: str, value: str) -> Path:
    """Create a run with this value in one field of one file."""
    keys = {"state/node_00": NODE, "state/run": RUN, "exit/0/first": FIRST}.get(path, {})
    if path.endswith(".jsonl"):
        numbers = {"step": "3", "loss": "1.5", key: value}
        text = f'{{"step": {numbers["step"]}, "loss": {numbers["loss"]}}}\n'
    elif key == "code":
        text = f"{value}\n{lines(keys)}"
    else:
        text = ("1\n" if path.startswith("exit") else "") + lines({**keys, key: value})
    return forge(root, name, **{path.replace("/", "__"): text})


class Scripts:
    """Run the scripts of an artifact on forged runs, and check after each that nothing of them was evaluated."""

    def __init__(self, artifact: Path, folder: Path) -> None:
        self.artifact, self.runs, self.root = artifact, folder.joinpath(*ROOT), folder / "w" / "here"
        self.root.mkdir(parents=True)
        self.mark = self.root / "MARK"
        self.path = os.environ["PATH"]

    def environment(self, **more: str) -> dict[str, str]:
        outer = {key: value for key, value in os.environ.items() if not key.startswith("JOBC_")}
        return {**outer, "JOBC_RUN_ROOT": str(self.runs), "PATH": self.path, **more}

    def run(self, word: str, *words: str, **more: str) -> str:
        """Run a verb, or a script of the artifact."""
        command = [self.artifact / word] if word.endswith(".sh") else [self.artifact / "jobctl", word]
        done = subprocess.run(
            [*command, *words], cwd=self.root, env=self.environment(**more), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        output = done.stdout.decode(errors="replace")
        assert not self.mark.exists(), f"{word} {words} ran a command: {output}"
        assert not BROKEN.search(output), f"{word} {words}: {output}"
        if word != "logs":
            assert not CONTROL.search(output), f"{word} {words}: {output!r}"
        return output


@pytest.fixture
def scripts(local: Path, tmp_path: Path) -> Scripts:
    return Scripts(local, tmp_path)


ROOT = ("w", "root")


def test_a_command_in_a_field_does_not_run(scripts: Scripts, tmp_path: Path) -> None:
    root = tmp_path.joinpath(*ROOT)
    for number, (path, key) in enumerate(FIELDS):
        name = f"r{number}"
        forge_field(root, name, path, key, CODE)
        for words in (["status", "--run"], ["logs", "--run"], ["stop", "--run"], ["submit", "--resume"]):
            scripts.run(*words, name)
    for words in (["status", "--all"], ["clean", "--keep", "0"], ["clean", "--keep", "0", "--yes"]):
        scripts.run(*words)


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_hostile_value_in_every_field_breaks_no_script(scripts: Scripts, tmp_path: Path, payload: str) -> None:
    root = tmp_path.joinpath(*ROOT)
    hostile = dict.fromkeys(NODE, payload)
    forge(
        root, "gated", state__node_00=lines({**hostile, "ended": "1"}), state__run=lines({**RUN, "created": payload}),
        exit__0__first=f"{payload}\n" + lines(dict.fromkeys(FIRST, payload)), state__resume=f"command={payload}\n",
        exit__0__node_00=f"{payload}\n", metrics__rank_00=payload, metrics__rank_01__jsonl=payload,
    )  # fmt: skip
    forge(
        root,
        "open",
        state__node_00=lines({**hostile, "host": NODE["host"]}),
        state__run=lines(dict.fromkeys(RUN, payload)),
    )
    forge(root, "away", state__node_00=lines(hostile))
    for name in ("gated", "open", "away"):
        scripts.run("status", "--run", name)
    scripts.run("logs", "--run", "gated")
    scripts.run("status", "--all")
    scripts.run("clean", "--keep", "0", "--keep-checkpoints")


@pytest.mark.parametrize("payload", (CODE, "$(touch MARK)", "1\n';touch MARK;'", "--all", "", "'", "-"), ids=range(7))
def test_a_node_started_by_hand_reads_a_hostile_run(scripts: Scripts, tmp_path: Path, payload: str) -> None:
    """launch.sh reads state/run itself, and evaluates what `jobctl node` prints."""
    submitted = {"arguments": json.dumps([payload]), "env": json.dumps({"A": payload, payload: "x"})}
    keys = {**dict.fromkeys(RUN, payload), **submitted}
    run = forge(tmp_path.joinpath(*ROOT), state__run=lines(keys), state__node_00=lines(NODE))
    shutil.rmtree(run / "artifact/0")
    scripts.artifact = Path(shutil.copytree(scripts.artifact, run / "artifact/0"))
    (run / "code").mkdir()
    (run / "code/p.py").write_text(
        "import os, sys; print('init from', os.environ.get('JOBC_INIT_FROM'), 'with', sys.argv[1:])\n"
    )
    output = scripts.run("launch.sh", "0")
    assert f"init from {payload.split(chr(10))[0]} with {[payload]}" in output


NAMES = (
    "artifact/run[$(touch MARK)]", f"artifact/{CODE}", "artifact/08", "artifact/" + "9" * 30, "artifact/1\n2",
    f"state/node_{CODE}", "state/node_0\n1", f"state/job_{CODE}", f"starts/{CODE}.x", f"exit/{CODE}",
    f"exit/0/node_{CODE}",
    f"checkpoints/step_{CODE}", "checkpoints/step_1\nprecious", "checkpoints/-rf", f"logs/node_{CODE}.log",
    "logs/node_00;touch${IFS}MARK;.log", f"metrics/rank_{CODE}.jsonl", "metrics/rank_0\n1.jsonl", f"control/{CODE}",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_names_in_a_run_folder_are_not_evaluated(scripts: Scripts, tmp_path: Path, kind: str) -> None:
    run = forge(tmp_path.joinpath(*ROOT))
    (scripts.root / "precious").mkdir()
    for name in NAMES:
        place = run / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.mkdir() if kind == "folder" else place.write_text("exit=1\n")
    for words in (["status"], ["status", "--all"], ["logs"], ["stop"], ["submit", "--resume", "r"]):
        scripts.run(*words)
    scripts.run("clean", "--keep", "0", "--keep-checkpoints", "--yes")
    scripts.run("clean", "--keep", "0", "--yes")
    assert (scripts.root / "precious").is_dir()


def test_clean_removes_nothing_that_a_name_with_a_newline_spells(scripts: Scripts, tmp_path: Path) -> None:
    root = tmp_path.joinpath(*ROOT)
    for name in ("a\nprecious", ".a\nprecious\n.removed", "-rf", "x[$(touch MARK)]", "\x1b[31m"):
        forge(root, name)
    (scripts.root / "precious").mkdir()
    for words in (["status", "--all"], ["clean", "--keep", "0", "--yes"]):
        scripts.run(*words)
    assert (scripts.root / "precious").is_dir()


STATE_FILES = (
    "state/node_00", "state/run", "state/resume", "exit/0/first", "exit/0/node_00", "metrics/rank_00.jsonl",
    "logs/node_00.log", "logs/rank_00.log", "checkpoints/step_1/MANIFEST.json",
    "checkpoints/step_1/weights",
)  # fmt: skip


def endless(place: Path) -> None:
    place.touch()
    os.truncate(place, 1 << 40)


KINDS: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo, "endless": endless, "link to /dev/zero": lambda place: place.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("paths", [STATE_FILES[:1], STATE_FILES[1:2], STATE_FILES[2:]], ids=["node", "run", "others"])
def test_what_is_no_small_regular_file_hangs_nothing(
    scripts: Scripts, tmp_path: Path, paths: tuple[str, ...], kind: str
) -> None:
    run = forge(tmp_path.joinpath(*ROOT))
    for path in paths:
        if kind == "endless" and path.startswith(("logs", "checkpoints")):
            continue  # read as far as they go
        (run / path).parent.mkdir(parents=True, exist_ok=True)
        (run / path).unlink(missing_ok=True)
        KINDS[kind](run / path)
    for words in (["status"], ["status", "--all"], ["submit", "--resume", "r"], ["logs"]):
        scripts.run(*words)
    scripts.run("clean", "--keep", "0", "--keep-checkpoints")
    scripts.run("clean", "--keep", "0")


def test_names_of_logs_are_no_commands_for_awk(two_nodes: Path, tmp_path: Path) -> None:
    scripts = Scripts(two_nodes, tmp_path)
    live = lines({**NODE, "host": "elsewhere", "ended": "", "exit": ""})
    run = forge(tmp_path.joinpath(*ROOT), state__node_00=live, state__node_01=live)
    shutil.copy(two_nodes / "hosts.txt", run / "artifact" / "0")
    hostile = run / "logs" / "node_01;touch${IFS}MARK;.log"
    hostile.write_text("a\n")
    with subprocess.Popen(
        [two_nodes / "jobctl", "logs", "--follow"], cwd=scripts.root, env=scripts.environment(), stdout=subprocess.PIPE
    ) as process:
        time.sleep(3)  # the first print comes after two seconds
        for log in (hostile, run / "logs" / "node_00.log"):
            log.write_text(log.read_text() + "b\n")
        (run / "state" / "node_00").write_text(lines(NODE))
        (run / "state" / "node_01").write_text(lines(NODE))
        process.wait(LIMIT_S)
    assert not (run / "logs" / "MARK").exists() and not scripts.mark.exists()


@pytest.mark.parametrize("word", ["status", "clean", "logs", "stop", "submit", "preflight", "launch.sh"])
def test_the_callers_shell_changes_nothing(scripts: Scripts, tmp_path: Path, word: str) -> None:
    forge(tmp_path.joinpath(*ROOT))
    words = {
        "clean": ["--keep", "0"],
        "launch.sh": ["0", "shell", "printf", "in the shell"],
        "preflight": ["--help"],
        "submit": ["--resume", "no"],
    }
    plain = scripts.run(word, *words.get(word, []))
    if word in ("status", "clean"):
        assert "failed (exit 1: crashed)" in plain
    if word == "launch.sh":
        assert plain == "in the shell"
    names = (
        "cd",
        "source",
        "set",
        "printf",
        "find",
        "key",
        "dirname",
        "run_status",
        "[",
        "exec",
        "env",
        "sort",
        "bash",
        "local",
    )
    functions = {f"BASH_FUNC_{name}%%": "() { touch MARK; }" for name in names}
    for more in ({"POSIXLY_CORRECT": "1"}, functions, {"SHELLOPTS": "noglob:noclobber"}, {"CDPATH": "/"}):
        assert scripts.run(word, *words.get(word, []), **more) == plain, more
