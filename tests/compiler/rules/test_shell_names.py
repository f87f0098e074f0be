"""JC2018: names of variables that the scripts of an artifact use themselves, held against what bash has in the end."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.rules.spec import _script_names as shell_names


@pytest.mark.parametrize("words", [(), ("setup=[true]", "backend=ssh", "hosts=[a,b]")], ids=["local", "setup"])
def test_every_variable_that_launch_sh_has_in_the_end_is_known(tmp_path: Path, words: tuple[str, ...]) -> None:
    job = compile_job(CompileRequest(("name=end", "procs=1", *words), ("python3", "train.py")))
    node = write_compiled_job(job, tmp_path) / "launch.sh"
    last = re.search(r"\nexec .* launch .*\n$", text := node.read_text())
    assert last is not None
    node.write_text(text[: last.start()] + "\ncompgen -v\n")
    (tmp_path / "run").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "JOBC_RUN_DIR": str(tmp_path / "run")}
    command = ["bash", str(node), "0", "train"]
    shown = subprocess.run(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    own = {name for name in shown.split() if re.search("[a-z]", name)}
    assert own >= {"rank", "payload", "launch", "here"} and own - shell_names.node_script_variables() == set()


@pytest.mark.parametrize(
    "words",
    [
        ("env.rank=7",), ("env.launch=q",), ("env.payload=9",), ("env.python=x",), ("env.here=99",), ("env.UID=7",),
        ("env.GROUPS=1",), ("env.PWD=/q",), ("env.OLDPWD=/q",), ("env.SHLVL=9",), ("env.FUNCNEST=1",),
        ("env.EXECIGNORE=*",), ("env.IFS=,",),
        ("secrets.artifact=env:TOKEN",), ("secrets.TOKEN=env:artifact",), ("secrets.python=file:~/x",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_name_that_would_be_lost_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(CompileError) as refused:
        compile_job(CompileRequest(words))
    assert [found.code for found in refused.value.diagnostics] == ["JC2018"]


@pytest.mark.parametrize(
    "name",
    ["http_proxy", "no_proxy", "lr", "code", "procs", "my_rank", "HOSTNAME", "OPTARG", "BASH_ENV", "CODE", "RUN"],
)
def test_other_names_reach_the_ranks(name: str) -> None:
    compile_job(CompileRequest((f"env.{name}=1",)))
