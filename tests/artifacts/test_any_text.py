"""Any text reaches the program byte for byte: in values, arguments and folder names, typed or written in a YAML file.

Each execution of an artifact carries a batch of texts, half hostile by design, half arbitrary. JOBC_EXECUTIONS says
how many executions of each test there are (unset: 2, the same every time; a number tries new texts each time).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from jobc.compiler.cli import main
from jobc.compiler.frontend.overrides import to_hydra
from jobc.compiler.testing.run_artifact import RECORD

EXECUTIONS = int(os.environ.get("JOBC_EXECUTIONS", "0"))
BATCH = 40

HOSTILE = (
    "", " ", "  x ", "\t", "\n", "a\n", "\n\na\n\n", "-", "--", "-n", "--help", "'", '"', "''", "it's \"me\"",
    "$", "$$", "$HOME",
    "${HOME}", "\\${HOME}", "\\\\${x}", "${", "$(id)", "`id`", "$((1))", "$'x'", "\\", "\\\\", "a\\",
    "\\n", "\\'", "%", "%s%%", "!", "!x!", "*", "?",
    "[a]", "{a,b}", "{}", "~", "~/x", "#", "# x", "&", "a&&b;c|d>e<f", "a=b", "null", "true", "0755", "1e3", "12:00:00",
    "\ue000", "\U000f0000", "\U0010ffff", "\ufffe", "\u2028",
    "\u200b", "\ufeff", "\x01\x1b[31m", "\x7f", "\x85", "\r\n", "日本 é",
    "e\u0301", "EOF", "'EOF'", "{{ x }}", "{% if %}", "${{x}}", "\\$", "a: b", "- a", "|", ">", "@x", "`", "x" * 5000,
)  # fmt: skip

characters = st.one_of(
    st.sampled_from("'\"$`\\{}()[]!%#&;|<>*?~ \t\n=,:-@^"),
    st.characters(exclude_characters="\0", exclude_categories=("Cs",)),
)
texts = st.one_of(st.sampled_from(HOSTILE), st.text(characters, max_size=30))
batches = st.lists(texts, min_size=BATCH, max_size=BATCH)
folder_names = st.text(characters.filter(lambda c: c != "/"), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 200
)
projects = folder_names.filter(lambda name: "\n" not in name)  # the scripts refuse those


def in_yaml(text: str) -> str:
    """Return text as a user writes it into a YAML file, where an unescaped `${` opens an interpolation."""
    return re.sub(r"(\\*)\$\{", lambda found: found[1] * 2 + "\\${", text)


def received(project: Path, out: str, words: list[str], command: list[str]) -> dict[str, object]:
    """Compile in `project` into its folder `out` as the command line does, run jobctl submit, and return what rank 0
    received.
    """
    (project / "record.py").write_text(RECORD)
    home = os.getcwd()
    os.chdir(project)
    try:
        assert main(["name=text", "launcher=spawn", f"--out={out}", *words, "--", "record.py", *command]) == 0
    finally:
        os.chdir(home)
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JOBC_")} | {"PATH": path}
    command = [project / out / "text" / "local" / "jobctl", "submit"]
    done = subprocess.run(command, env=environment, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="backslashreplace")
    (file,) = project.glob("runs/text/*/received_0.json")
    return json.loads(file.read_text())


def check(values: list[str], arguments: list[str], folder: str, out: str, by_file: bool) -> None:
    scratch = Path(tempfile.mkdtemp())
    project = scratch / folder
    project.mkdir()
    variables = {f"TEXT_{i}": text for i, text in enumerate(values)}
    try:
        if by_file:
            (project / "jobc" / "cluster").mkdir(parents=True)
            tree = {"env": {name: in_yaml(text) for name, text in variables.items()}}
            file = "# @package _global_\n" + yaml.safe_dump(tree, allow_unicode=True, default_style='"')
            (project / "jobc" / "cluster" / "mine.yaml").write_text(file, encoding="utf-8", newline="")
            words = ["cluster=mine"]
        else:
            words = [f"env.{name}={to_hydra(in_yaml(text))}" for name, text in variables.items()]
        rank = received(project, out, words, arguments)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    assert rank["argv"][1:] == arguments
    assert {name: rank["env"].get(name) for name in variables} == variables


@pytest.mark.parametrize("by_file", [False, True], ids=["typed", "in a YAML file"])
@settings(
    max_examples=EXECUTIONS or 2,
    derandomize=not EXECUTIONS,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # a failure names the text: shrinking would run hundreds of artifacts
    suppress_health_check=list(HealthCheck),
)
@given(values=batches, arguments=batches, folder=projects, out=folder_names)
def test_arbitrary_text_arrives(values: list[str], arguments: list[str], folder: str, out: str, by_file: bool) -> None:
    check(values, arguments, folder, out, by_file)


@pytest.mark.parametrize("by_file", [False, True], ids=["typed", "in a YAML file"])
def test_hostile_text_arrives(by_file: bool) -> None:
    check(list(HOSTILE), list(HOSTILE), '-it\'s $(x) `y` "z" \\ \t é', "--out $HOME %s *", by_file)
