"""`${jobc:run_id}` in the command and in env: a value that is known only when the job runs."""

from __future__ import annotations

import subprocess

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.plan.runtime_vars import Concat, RuntimeVar, parse_runtime_references
from jobc.compiler.plan.shell_quoting import sh
from jobc.compiler.spec.runtime_references import NAMES

ON_BACKENDS = [
    ("backend=local",), ("backend=ssh", "hosts=[a,b]"), ("backend=pdsh", "hosts=[a,b]"), ("backend=slurm",),
    ("backend=accelerate", "hosts=[a,b]"), ("backend=kubernetes", "image=a:1"), ("backend=skypilot",),
]  # fmt: skip


def test_each_name_is_a_variable_that_launch_sh_knows():
    assert {name.upper() for name in NAMES} == {v.name for v in RuntimeVar} - {"HEAD_PORT"}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("plain", "plain"),
        ("", ""),
        ("${jobc:run_id}", Concat((RuntimeVar.RUN_ID,))),
        ("a/${jobc:run_id}.${jobc:attempt}", Concat(("a/", RuntimeVar.RUN_ID, ".", RuntimeVar.ATTEMPT))),
        ("${HOME} $${jobc:run_id}", Concat(("${HOME} $", RuntimeVar.RUN_ID))),
    ],
)
def test_text_becomes_a_word(text, word):
    assert parse_runtime_references(text) == word


@pytest.mark.parametrize("text", ["a b", "'", '"', "$(exit 3)", "`exit 3`", "\\", "a\nb", "*", "!x", "$", "é"])
def test_the_shell_gets_the_text_around_a_value_unchanged(text):
    word = sh(parse_runtime_references(f"{text}${{jobc:run_id}}{text}"))
    value = "$(exit 4) '\"*"  # even a hostile run ID is one word
    done = subprocess.run(
        ["bash", "-c", f"printf %s. {word}"], env={"JOBC_RUN_ID": value}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{text}{value}{text}."


@pytest.mark.parametrize("words", ON_BACKENDS, ids=lambda words: words[0])
def test_launch_sh_of_every_backend_has_the_variables(words):
    request = CompileRequest(
        (*words, "env.TRIAL=${jobc:run_id}", "env.COPY=${env.TRIAL}"), ("./t", "--out=${jobc:run_dir}/x")
    )
    files = [file.text for file in compile_job(request).artifacts if file.path in ("launch.sh", "job.yaml")]
    lines = {line.strip() for text in files for line in text.splitlines()}
    wanted = {'export TRIAL="${JOBC_RUN_ID}"', 'export COPY="${JOBC_RUN_ID}"', '--out="${JOBC_RUN_DIR}"/x'}
    assert wanted <= lines


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("name=${jobc:run_id}", "name"),
        ("storage.root=/r/${jobc:job_id}", "storage.root"),
        ("setup=['echo ${jobc:run_id}']", "setup.0"),
        ("env.AWS_PROFILE=${jobc:run_id}", "env.AWS_PROFILE"),
        ("env.A=${jobc:head_port}", "env.A"),
        ("env.A=${jobc:run}", "env.A"),
        ("labels.a=${jobc:run_id}", "labels.a"),
        ("accelerate.extra={a: '${jobc:run_id}'}", "accelerate.extra.a"),
    ],
)
def test_a_value_that_is_not_known_is_refused_once(word, key):
    with pytest.raises(CompileError) as error:
        compile_job(CompileRequest(("backend=local", word), ("train.py",)))
    assert [(d.code, d.key) for d in error.value.diagnostics] == [("JC1205", key)]
