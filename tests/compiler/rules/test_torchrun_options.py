"""torchrun.extra: its options in launch.sh, and those that are refused."""

from __future__ import annotations

import re
import shlex

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.rules.spec.launch import SET_BY_JOBC, TORCHRUN_FLAGS, TORCHRUN_OPTIONS


def launch_words(*words: str) -> list[str]:
    """The words of launch.sh's launch line, before the command."""
    job = compile_job(CompileRequest(words, ("prog",)))
    text = next(file.text for file in job.artifacts if file.path == "launch.sh")
    (line,) = re.findall(r"(?ms)^launch=\(\n(.*?)^  --$", text)
    return shlex.split(line, comments=True)


def refused(*words: str) -> list[tuple[str, str, str]]:
    with pytest.raises(CompileError) as error:
        compile_job(CompileRequest(words, ("prog",)))
    return [(d.code, d.key, d.hint) for d in error.value.diagnostics]


@pytest.mark.parametrize("launcher", ["torchrun", "torch_distributed_launch"])
def test_options_are_on_the_launch_line_and_quoted(launcher: str) -> None:
    extra = "torchrun.extra={numa_binding: node, redirects: '0:1,1:2', virtual-local-rank: true, tee: null}"
    extra = extra.replace("}", """, role: "it's $(id)"}""")
    plain, words = launch_words(f"launcher={launcher}"), launch_words(f"launcher={launcher}", extra)
    assert [word for word in words if word not in plain] == [
        "--numa-binding=node", "--redirects=0:1,1:2", "--role=it's $(id)", "--virtual-local-rank",
    ]  # fmt: skip
    assert [word for word in words if word in plain] == plain


@pytest.mark.parametrize("option", sorted(SET_BY_JOBC))
def test_what_jobc_sets_is_refused_in_both_spellings(option: str) -> None:
    for name in {option, option.replace("-", "_")}:
        [(code, key, hint)] = refused(f"torchrun.extra.{name}=1")
        assert (code, key) == ("JC4600", f"torchrun.extra.{name}")
        setter = SET_BY_JOBC[option]
        assert hint == f"remove torchrun.extra.{name}{setter and f', and use {setter}'}"


@pytest.mark.parametrize(
    ("words", "key", "hint"),
    [
        (("torchrun.extra.numa-bindings=node",), "torchrun.extra.numa-bindings", "torchrun.extra.numa-binding=node"),
        (("torchrun.extra.nproc=2",), "torchrun.extra.nproc", "remove torchrun.extra.nproc"),  # argparse abbreviates
        (("torchrun.extra.tee=[3]",), "torchrun.extra.tee", "remove torchrun.extra.tee"),
        (("torchrun.extra.tee=true",), "torchrun.extra.tee", "remove torchrun.extra.tee"),
        (("torchrun.extra.virtual_local_rank=3",), "torchrun.extra.virtual_local_rank",
         "remove torchrun.extra.virtual_local_rank"),
        (("launcher=spawn", "torchrun.extra.tee=3"), "torchrun.extra", "launcher=torchrun"),
    ],
)  # fmt: skip
def test_what_torchrun_cannot_read_is_refused(words: tuple[str, ...], key: str, hint: str) -> None:
    assert refused(*words) == [("JC2025", key, hint)]


def test_every_option_of_the_installed_torchrun_is_known() -> None:
    run = pytest.importorskip("torch.distributed.run")
    actions = [action for action in run.get_args_parser()._actions if action.option_strings]
    names = {string[2:] for action in actions for string in action.option_strings if string.startswith("--")}
    assert {name.replace("_", "-") for name in names} == TORCHRUN_OPTIONS | SET_BY_JOBC.keys()
    assert {
        name for action in actions if action.nargs == 0 for name in (action.option_strings[0][2:],)
    } & TORCHRUN_OPTIONS == TORCHRUN_FLAGS
