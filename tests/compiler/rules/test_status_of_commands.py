"""Exit codes that the words after -- hide from jobc: which commands the rules report, and which they must not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jobc.compiler.rules.plan._shell import quote_for_bash

from ..diagnosed import found, in_shell


@pytest.mark.parametrize(
    "text",
    [
        "python train.py | tee log",
        "python3 -u train.py 2>&1 | tee log",
        "python -m mypackage.train |& tee log",
        "echo pipefail; python train.py | tee log",
        "echo set -o pipefail; python train.py | tee log",
        "set -o pipefail; set +o pipefail; python train.py | tee log",
        "python train.py | tee log; set -o pipefail",
        "cd x && torchrun train.py | tee log",
        "srun python train.py --date true | tee log",
        "srun ./train | tee log",
        "mpirun -np 4 ./train | tee log",
        "accelerate launch train.py --amp true | tee log",
        "uv run --no-sync train.py | tee log",
        "nohup env X=1 python train.py | tee log",
        "apptainer exec --nv image.sif python train.py | tee log",
        "$PYTHON train.py | tee log",
        "(cd src; python train.py; touch done) 2>&1 | tee log",
        "{ date; python train.py; } 2>&1 | tee log",
        "for i in 1 2; do python train.py --seed $i; done | tee log",
        "if true; then python train.py; fi | tee log",
        "python prep.py; python train.py | tee log",
        "python train.py <<EOF | tee log\nlr: 1\nEOF",
        "./run.sh | tee log",
        "cd x && ./run 2>&1 | tee log",
        "bash -x scripts/run.sh --lr 1 | grep -v warn | tee log; echo done",
    ],
)
def test_a_pipe_that_hides_the_status_is_told(text: str) -> None:
    assert len(found("JC3008", *in_shell(text))) == 1


@pytest.mark.parametrize(
    "command",
    [
        in_shell("python train.py 2>&1 | tee log; exit ${PIPESTATUS[0]}"),
        in_shell('python train.py | tee log; code="${PIPESTATUS[0]}"; rm -f lock; exit $code'),
        in_shell("set -o pipefail; python train.py | tee log"),
        in_shell("set -euo pipefail\npython train.py | tee log"),
        ("bash", "-o", "pipefail", "-c", "python train.py | tee log"),
        ("bash", "-eo", "pipefail", "-c", "python train.py | tee log"),
        in_shell("cat train.py | md5sum; exec python train.py"),
        in_shell("ls *.py | wc -l; exec python train.py"),
        in_shell("grep -c python train.py | tee n; exec python train.py"),
        in_shell("echo 'python train.py' | tee log; exec python train.py"),
        in_shell("python --version | tee log; exec python train.py"),
        in_shell("python -m pip list | grep torch; exec python train.py"),
        in_shell("srun hostname | sort; exec python train.py"),
        in_shell("accelerate env | tee log; exec python train.py"),
        in_shell("zcat words.gz | python train.py"),
        in_shell("python train.py --pattern '|' tee"),
        in_shell("python train.py  # | tee log"),
        in_shell("python train.py >| log"),
        in_shell("(cd src; ls | wc -l); { ls | wc -l; }; python train.py"),
        in_shell("python train.py; case $1 in a) ls | wc -l;; esac"),
        in_shell("python prep.py | head -1; python train.py"),
        in_shell("./prep.sh | tail -1; exec python train.py"),
        in_shell("./prep.sh | tail -1; my-train --lr 0.1"),
        in_shell("./run.sh; ls | wc -l"),
        in_shell("cat <<EOF\npython train.py | tee log\nEOF\n./run.sh"),
        in_shell("set -o pipefail; ./run.sh | tee log"),
        in_shell("my-train --lr 0.1 | tee log"),
    ],
)
def test_a_pipe_whose_status_is_kept_or_that_trains_nothing_is_not(command: tuple[str, ...]) -> None:
    assert found("JC3008", *command) == []


@pytest.mark.parametrize(
    ("command", "mended"),
    [
        (in_shell("python t.py | tee l"), "bash -o pipefail -c 'python t.py | tee l'"),
        (("env", "X=1", *in_shell("python t.py | tee l")), "env X=1 bash -o pipefail -c 'python t.py | tee l'"),
        (("uv", "run", *in_shell("python t.py | tee l")), "uv run bash -o pipefail -c 'python t.py | tee l'"),
        (
            ("env", "-iS", "X=1 bash -c 'python t.py | tee l'"),
            "env -i X=1 bash -o pipefail -c 'python t.py | tee l'",
        ),
        (("/bin/sh", "-c", "python t.py | tee l"), "bash -o pipefail -c 'python t.py | tee l'"),  # dash 0.5.12 has none
    ],
)
def test_the_hint_for_a_pipe_gives_the_option_to_the_shell(command: tuple[str, ...], mended: str) -> None:
    (told,) = found("JC3008", *command)
    assert told.hint is not None and told.hint.startswith(f"-- {mended};")


def test_a_command_of_several_lines_is_hinted_on_one() -> None:
    (told,) = found("JC3008", *in_shell("python t.py | tee l\necho 'a'"))
    assert (told.hint or "").startswith(r"-- bash -o pipefail -c $'python t.py | tee l\necho \'a\''; ")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a PATH on which python fails and everything else succeeds."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("python", "cp", "sleep", "pkill", "rm", "sync", "touch", "cat", "nvidia-smi"):
        (folder / name).write_text(f"#!/bin/sh\nexit {3 * (name == 'python')}\n")
        (folder / name).chmod(0o755)
    return folder


def status(text: str, path: Path) -> int:
    """Return bash's exit code for the text, where only python fails."""
    quiet = f"cd() {{ :; }}; kill() {{ :; }}; /bin/cp() {{ :; }}; disown() {{ :; }}\n{text}"
    done = subprocess.run(["/bin/bash", "-c", quiet], env={"PATH": str(path)}, capture_output=True, check=False)
    return done.returncode


@pytest.mark.parametrize(
    "text",
    [
        "python train.py; echo done",
        "python train.py; cp -r out /nfs/out",
        "python train.py\ncp -r out /nfs/out\n",
        "python train.py; sleep 5  # for the log",
        "set +e; python train.py; kill $(cat mon.pid)",
        "set -e; set +o errexit; python train.py; true",
        "python train.py; pkill -f monitor.py",
        "python train.py; rc=$?",
        "python train.py; rc=$?; echo ended with $rc",
        "python train.py; rm -f lock; exit 0",
        "python train.py || echo failed",
        "set -e; python train.py || echo failed; sync",
        "set -e; python train.py && touch ok; sync",
        "if python train.py; then touch ok; fi; sync",
        "for i in 1 2; do python train.py --seed $i; done; /bin/cp -r out /nfs/out",
        "python a.py & python b.py & wait",
        "set -e; python a.py & python b.py & wait",
        "python train.py &",
        "python monitor.py & python train.py; kill $!",
        "python train.py & sleep 5; disown",
        "(cd src; python train.py; nvidia-smi)",
        "python train.py; sync  # the program's output",
        "python train.py <<EOF\nexit 1\nEOF\nsync",
    ],
)
def test_a_last_command_that_hides_the_status_is_told(text: str, failing: Path) -> None:
    assert len(found("JC3009", *in_shell(text))) == 1
    assert status(text, failing) == 0, "what the rule says is so"


@pytest.mark.parametrize(
    "text",
    [
        "python train.py",
        "python train.py;",
        "python train.py && cp -r out /nfs/out",
        "cd x; python train.py",
        "cp -r /nfs/data . ; exec python train.py",
        "set -e; python train.py; cp -r out /nfs/out",
        "set -euo pipefail\npython train.py\nset +e\ncp -r out /nfs/out",
        "set -e; python monitor.py & python train.py; kill $!",
        "python train.py; status=$?; rm -f lock; exit $status",
        'python train.py; status=$?; rm -f lock; exit "$status"',
        "python train.py; rc=$?; if [ $rc -ne 0 ]; then exit $rc; fi; cp -r out /nfs/out",
        "python train.py || exit 1; cp -r out /nfs/out",
        "python train.py || { rm -f lock; exit 1; }; sync",
        "python train.py; exit",
        "python train.py; rc=$?; sync; [ $rc -eq 0 ]",
        "for i in 1 2; do python train.py --seed $i; done",
        "python a.py & first=$!; python b.py & second=$!; wait $first && wait $second",
        "python train.py & wait $!",
        "python train.py & pid=$!; trap 'kill $pid' TERM; wait \"$pid\"",
        "trap 'rm -f lock' EXIT; python train.py",
        "main() { python train.py; }; main",
        "cleanup() { rm -f lock; }; trap cleanup EXIT; python train.py",
        "python train.py --config /dev/stdin <<EOF\nlr: 1\nEOF",
        "cat <<EOF\npython x.py; rm\nEOF\npython train.py",
    ],
)
def test_a_status_that_is_kept_is_not(text: str, failing: Path) -> None:
    assert found("JC3009", *in_shell(text)) == []
    assert status(text, failing) != 0, "what the rule relies on is so"


@pytest.mark.parametrize(
    "text",
    [
        "until python train.py; do sleep 60; done; cp -r out /nfs/out",
        "while ! python train.py; do sleep 60; done; sync",
        "python prepare.py; ./train.sh",
        "python prepare.py; bash run/train.sh",
        "python prepare.py; accelerate launch main.py",
        'python prepare.py; "$@"',
        "python -m pip install -e .; my-train --lr 0.1",
        "python --version; nvidia-smi",
        "echo python train.py; echo done",
    ],
)
def test_a_loop_until_it_succeeds_and_another_program_at_the_end_are_left_alone(text: str) -> None:
    assert found("JC3009", *in_shell(text)) == []


@pytest.mark.parametrize(("options", "fires"), [("-c", 1), ("-ec", 0), ("-lc", 1), ("-euxc", 0)])
def test_a_shell_that_stops_keeps_the_status(options: str, fires: int) -> None:
    assert len(found("JC3009", "bash", options, "python train.py; sync")) == fires
    assert len(found("JC3009", "bash", options, "set +e; python train.py; sync")) == 1


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("python3 train.py --note 'it is", "'it is"),
        ('python3 train.py --note "abc', '"abc'),
        ("echo it's\npython3 train.py", "'s"),
        ("python3 train.py <<'END'\n'\nEND\nls \"x", '"x'),
        ("bash -c 'python3 train.py --note \"a'", '"a'),
    ],
)
def test_a_quote_without_an_end_is_told(text: str, rest: str) -> None:
    (told,) = found("JC3013", *in_shell(text))
    assert told.title == f"unclosed quote: `{rest}`"


@pytest.mark.parametrize(
    "text",
    [
        "python3 train.py <<'END'\n\"(\nEND",
        "python3 train.py # don't (stop",
        "python3 train.py --note it\\'s \"it's\" 'a \"' $'it\\'s'",
        'python3 train.py --note "$(echo "it\'s")"',
        "echo ${#x} $# ${x#a}; python3 train.py",
        'python3 train.py --note "${NOTE:-"it\'s"}"',
        "python3 train.py <<E/F\nit's\nE/F",
        "python3 train.py <<$X\nit's\n$X",
        "python3 train.py <<E'O'F\nit's\nEOF",
        "python3 train.py <<EOF\nit's",
    ],
)
def test_a_quote_that_only_looks_open_is_not(text: str) -> None:
    assert not found("JC3013", *in_shell(text))


@pytest.mark.parametrize("options", [["-c"], ["-lc"], ["-eo", "pipefail", "-c"], ["--rcfile", "a", "-c"], ["-c", "-e"]])
def test_the_text_of_a_shell_is_behind_its_own_options(options: list[str]) -> None:
    assert found("JC3013", "bash", *options, "python3 train.py 'a")
    assert not found("JC3013", "bash", "run.sh", *options, "python3 train.py 'a"), "then they are the script's"


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("python3 train.py \\ # all GPUs\n  --lr 1", "python3 train.py \\\n  --lr 1"),
        ("python3 train.py \\  \n  --lr 1 \\\t\n  --wd 0", "python3 train.py \\\n  --lr 1 \\\n  --wd 0"),
        ("python3 train.py \\\n  --lr 1 \\ # x\n  --wd 0", "python3 train.py \\\n  --lr 1 \\\n  --wd 0"),
        ("python3 train.py \\\n  --lr 1", None),
        ("python3 train.py --out my\\ runs\nls", None),
        ("python3 train.py --note 'a \\ # b\nc'", None),
        ("python3 train.py <<'END'\na \\ \nb\nEND", None),
        ("python3 train.py # ends with \\ \nls", None),
        ("IFS=\\ \npython3 train.py", None),
        ("cut -d\\ \n", None),
        ("cat <<END\nit's\nEND\nawk 'BEGIN { x=1; \\ \n print x }'", None),
        ("cat <<END\nit's\nEND\nls \\ \n --note 'a'", "cat <<END\nit's\nEND\nls \\\n --note 'a'"),
        ("python3 train.py \\\r\n  --lr 1", "python3 train.py \\\n  --lr 1"),
    ],
)
def test_a_backslash_before_a_blank_continues_no_line(text: str, mended: str | None) -> None:
    told = found("JC3014", *in_shell(text))
    assert [each.hint for each in told] == ([f"-- {quote_for_bash(in_shell(mended))}"] if mended else [])
    if mended:
        assert not found("JC3009", *in_shell(text)) and not found("JC3014", *in_shell(mended))


def test_a_backslash_before_a_blank_at_the_end_is_a_word() -> None:
    (told,) = found("JC3014", *in_shell("python3 train.py --a 1 \\ \n"))
    assert told.title == "the command ends with a blank argument"


def test_a_backslash_before_a_blank_is_found_within_a_shell_as_well() -> None:
    (told,) = found("JC3014", *in_shell("bash -c 'python3 train.py \\ \n --lr 1'"))
    assert told.hint == "remove the whitespace after the backslash"
