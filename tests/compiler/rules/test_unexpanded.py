"""Text that only a shell would read, where there is none (JC3002, JC3010): what is told, and what the hints do."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from jobc.compiler.diagnostics.diagnostic import Diagnostic, format_for_terminal
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest

from ..diagnosed import found, in_shell


@pytest.mark.parametrize(
    ("words", "command", "variable"),
    [
        (("env.HF_HOME=/scratch/$USER/hf",), (), "$USER"),
        (("env.RESULTS=s3://bucket/$USER",), (), "$USER"),
        (("env.NODE=$(hostname)",), (), "$(hostname)"),
        ((), ("train.py", "--data", "/scratch/$USER/data"), "$USER"),
        ((), ("train.py", "--out", "$SCRATCH"), "$SCRATCH"),
        ((), ("train.py", "--out=${SCRATCH_DIR}"), "${SCRATCH_DIR}"),
        ((), ("train.py", "--run", "run_$SLURM_JOB_ID"), "$SLURM_JOB_ID"),
        ((), ("train.py", "--run", "$root/data"), "$root"),
        ((), ("train.py", "--x", "$(hostname -s)"), "$(hostname -s)"),
        ((), ("uv", "run", "train.py", "--x", "a-$USER"), "$USER"),
        (("env.DATA=~/data",), (), "~/"),
        (("env.DATA_PATHS=/opt/lib:~/lib",), (), "~/"),
        (("env.NODE=`hostname`",), (), "`hostname`"),
        ((), ("train.py", "--data", "~/data"), "~/"),
        ((), ("train.py", "--data=~/data"), "~/"),
        ((), ("train.py", "--run", "/runs/`date +%F`-`hostname`"), "`date +%F`"),
    ],
)
def test_a_variable_that_nothing_expands_is_told(
    words: tuple[str, ...], command: tuple[str, ...], variable: str
) -> None:
    (told,) = found("JC3002", *command, words=words)
    assert f" contains {variable}, which is not expanded" in told.title


def test_the_shell_of_the_hint_gets_every_other_word_as_it_is() -> None:
    (told,) = found("JC3002", "train.py", "--price", "$5", "--out", "/scratch/$USER/a b")
    assert told.hint == "-- bash -c " + shlex.quote(
        """exec python3 train.py --price '$5' --out "/scratch/$USER/a b\""""
    )


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("env.PATTERN=^(foo|bar)$", "env.PRICE=$5 a day", "env.PID=$$"), ()),
        ((r"env.PS4=+\${BASH_SOURCE}:\${LINENO} ", "env.LD_PRELOAD=/opt/$LIB/libx.so:$ORIGIN/liby.so"), ()),
        ((), ("train.py", "--x", r"\$USER", "--y", "$$USER", "--z", "foo$", "--price", "$5", "US$", "$.key", "$[0]")),
        ((), ("train.py", "--formula", "$N$ and $x$", "--template", "{{ USER }} ${env} ${now:%Y} $Name")),
        ((), ("train.py", "out=${oc.env:SCRATCH}/x")),
        ((), ("train.py", "--url", "https://example.org/~/x", "--sep", "~", "--by", "a~/b", "--about", "~5")),
        ((), ("train.py", "--prompt", "Say `yes` or `no`", "--quote", "`", "--fence", "```json```")),
        ((), in_shell('exec python train.py --out "/scratch/$USER"')),
        ((), ("env", "X=1", *in_shell("python train.py $USER"))),
        ((), ("torchrun", "--no-python", *in_shell("python train.py $RANK"))),
    ],
)
def test_a_dollar_that_means_something_else_is_not(words: tuple[str, ...], command: tuple[str, ...]) -> None:
    assert compile_job(CompileRequest(words, command or None)).diagnostics == ()


PATHS = [
    "storage.root", "storage.data", "storage.scratch", "code.root", "container.workdir", "python.interpreter",
    "python.path", "caches.downloads", "caches.compiled",
]  # fmt: skip
PATH_WORDS = {"python.path": ("python=venv",)}


@pytest.mark.parametrize("key", PATHS)
@pytest.mark.parametrize(
    ("path", "variable"),
    [
        ("$SCRATCH/runs", "$SCRATCH"),
        ("/scratch/${USER}/runs", "${USER}"),
        ("/scratch/$user", "$user"),
        ("/scratch/$(id -un)/runs", "$(id -un)"),
        ("/scratch/`id -un`/runs", "`id -un`"),
        ("~me/runs", "~me/"),
    ],
)
def test_a_path_that_nothing_expands_is_told(key: str, path: str, variable: str) -> None:
    escaped = path.replace("${", r"\${")
    (told,) = found("JC3002", "true", words=(*PATH_WORDS.get(key, ()), f'{key}="{escaped}"'))
    assert (told.key, told.title) == (key, f"{key} contains {variable}, which is not expanded")
    assert ("JOBC_RUN_ROOT" in (told.hint or "")) == (key == "storage.root")


@pytest.mark.parametrize("key", ["storage.root", "storage.data", "code.root", "container.workdir"])
def test_so_is_a_tilde(key: str) -> None:
    assert found("JC3002", "true", words=(f"{key}=~/runs",))[0].title == f"{key} contains ~/, which is not expanded"


def test_so_is_a_mount() -> None:
    mount = "mounts=[{kind: host, source: /scratch/$USER, target: /data/$USER, read_only: true}]"
    told = found("JC3002", "true", words=("container=docker", "image=a", mount))
    assert [each.key for each in told] == ["mounts.0.source", "mounts.0.target"]


@pytest.mark.parametrize(
    "words",
    [
        ("caches=node",),
        ("caches=shared",),
        ("caches.downloads=~/models", "caches.compiled=/tmp/$UID/compiled"),
        ("storage.scratch=~/runs", "storage.root=/a/b~c/~/$", r"code.root=src\$USER"),
        ("storage.run=node", "storage.root=~/runs"),
        ("storage.root=runs/5$/a", "storage.data=/data"),
        ("estimate.run=~/runs/x",),
    ],
)
def test_a_path_that_a_script_expands_or_that_has_no_variable_is_not(words: tuple[str, ...]) -> None:
    assert found("JC3002", "true", words=words) == []


def strip_quotes_around_numbers(hint: str) -> bytes:
    """Return what a hint's command prints when a user copies it from the screen."""
    (line,) = format_for_terminal([Diagnostic("JC3002", "", "", hint)]).splitlines()[-1:]
    text = line.partition(" -- ")[2]
    path = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "USER": "me"}
    return subprocess.run(["bash", "-c", text], env=path, capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    ("words", "command", "prints"),
    [
        ((), ("printf", "<%s>", "/x/$USER-\"a\" 'b'", "~/d"), "</x/me-\"a\" 'b'></home/me/d>"),
        ((), ("printf", "<%s>", "--out=~/d", "`echo a`/`echo 'b  c'`"), "<--out=/home/me/d><a/b  c>"),
        ((), ("printf", "<%s>", "a\n\t$USER/\\n", "'x\ny\u00a0'"), "<a\n\tme/\\n><'x\ny\u00a0'>"),
        (('env.X="a\n$HOME/w"',), ("printenv", "X"), "a\n/home/me/w\n"),
    ],
)
def test_the_command_that_is_hinted_does_what_was_meant(
    words: tuple[str, ...], command: tuple[str, ...], prints: str
) -> None:
    (told,) = found("JC3002", *command, words=words)
    assert strip_quotes_around_numbers(told.hint or "") == prints.encode()


def test_the_trainer_is_not_hinted_as_a_command_of_ones_own() -> None:
    assert found("JC3002", words=("env.DATA=~/data",))[0].hint == "set env.DATA to the expanded value"


@pytest.mark.parametrize(
    ("command", "shell"),
    [
        ("train.py --lr 1", "bash -c 'python3 train.py --lr 1'"),
        ("torchrun train.py", "bash -c 'torchrun train.py'"),
    ],
)
def test_the_shell_for_a_command_in_one_word_starts_what_jobc_starts(command: str, shell: str) -> None:
    (told,) = found("JC3010", command)
    assert told.hint == f"-- {command}; or, for a shell, -- {shell}"


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("python3 train.py --note it's", """-- python3 train.py --note 'it'"'"'s'"""),
        ("python3 train.py \\\n --lr 1", r"-- bash -c $'python3 train.py \\\n --lr 1'"),
        ("python3 train.py\n --lr 1", r"-- bash -c $'python3 train.py\n --lr 1'"),
    ],
)
def test_of_a_command_in_one_word_no_form_is_hinted_that_breaks(command: str, hint: str) -> None:
    (told,) = found("JC3010", command)
    assert told.hint == hint
    assert not any(found(code, *shlex.split(hint.replace("$'", "'"))[1:]) for code in ("JC3010", "JC3013"))


@pytest.mark.parametrize("command", ["python train.py | tee log", "python train.py --lr $LR", "bash a.sh && bash b.sh"])
def test_of_a_command_in_one_word_that_needs_a_shell_only_the_shell_is_hinted(command: str) -> None:
    (told,) = found("JC3010", command)
    assert told.hint == f"-- bash -c '{command}'"
    assert found("JC3002", command) == []


def test_a_reference_after_the_dashes_to_a_variable_of_the_job_is_told() -> None:
    (told,) = found("JC3002", "train.py", "lr=${env.LR}", words=("env.LR=1",))
    assert told.hint == """'command=[train.py,"lr=${env.LR}"]', without the words after --"""
    assert found("JC3002", "train.py", "${env.OTHER}", words=("env.LR=1",)) == []
    assert found("JC3002", "train.py", "${optim.lr}", words=("env.LR=1",)) == []  # may be the program's own Hydra
