"""Secrets in the texts of a job (JC4515): found anywhere in them, never repeated; what only looks like one is none."""

from __future__ import annotations

import pytest

from jobc.compiler import rules
from jobc.compiler.cli import main
from jobc.compiler.cli.diagnostic_formats import FORMATS
from jobc.compiler.diagnostics.diagnostic import CompileError, format_for_terminal
from jobc.compiler.emit.source_map import SpecValue
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest

from ..diagnosed import found

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123456789"
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def hints(value: object, key: str = "backend.setup") -> list[str]:
    return [d.hint.partition(" ")[0] for d in rules.check_rules("values", {key: SpecValue(value, None)})]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"export HF_TOKEN={TOKEN}", "HF_TOKEN"),
        (f"export X='{TOKEN}'", "X"),
        (f'curl -H "Authorization: Bearer {TOKEN}" https://h', "TOKEN"),
        ("pip install https://me:pw@example.org/a.whl", "TOKEN"),
        ("redis://:pw@example.org", "TOKEN"),
        ("-e AWS_SECRET_ACCESS_KEY=abc", "AWS_SECRET_ACCESS_KEY"),
        ("aws configure set aws_access_key_id AKIAIOSFODNN7EXAMPLE", "TOKEN"),
        ("echo 'sk-proj-abcDEF123456789012345-x' > key", "TOKEN"),
        (f"wandb login {HASH[:40]}", "WANDB_API_KEY"),
        (f"export wandb_api_key={HASH[:40]}", "WANDB_API_KEY"),
        (f"WANDB_KEY={HASH[:40]} true", "WANDB_KEY"),
        ("echo '-----BEGIN RSA PRIVATE KEY-----", "TOKEN"),
    ],
)
def test_a_secret_is_found_anywhere_in_a_text(text: str, name: str) -> None:
    assert hints(text) == hints(["a", {"b": [text]}]) == [f"secrets.{name}=env:{name}"]


@pytest.mark.parametrize(
    "text",
    [
        HASH,
        f"image@sha256:{HASH}",
        "/data/hf_transfer/hf_datasets_cache_v2",
        "HF_HUB_ENABLE_HF_TRANSFER=1",
        "pip install sk-learn-toolkit-environment disk-abcdefghijklmnop12345678901",
        "export HF_TOKEN=$HF_TOKEN",
        'export HF_TOKEN="$(cat /run/secrets/hf)"',
        "git clone https://me:$GIT_TOKEN@example.org/a",
        "reg.example.org:5000/a/b",
        "MAX_TOKENS=12",
        "f(api_key=args.api_key, password=getpass())",
        f"CACHE_KEY={HASH} PUBLIC_KEY={HASH}",
        "wandb login $WANDB_API_KEY",
    ],
)
def test_what_is_none_is_not_taken_for_one(text: str) -> None:
    assert hints(text) == []


def test_what_other_rules_look_at_is_left_to_them() -> None:
    for key in ("env.A", "labels.a", "command", "code.repository"):
        assert hints(TOKEN, key) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("backend.setup", f'["export HF_TOKEN={TOKEN}"]'),
        ("backend.config.docker.run_options", f'["-e HF_TOKEN={TOKEN}"]'),
        ("backend.extra.event_callback", f'"curl -H {TOKEN}"'),
        ("python.modules", f"[{TOKEN}]"),
    ],
)
def test_the_message_names_the_key_and_not_the_secret(key: str, value: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_job(CompileRequest(("backend=skypilot", f"{key}={value}")))
    assert [(d.code, d.key) for d in refused.value.diagnostics] == [("JC4515", key)]
    assert TOKEN not in format_for_terminal(refused.value.diagnostics)


SWEPT = [  # a sweep, what no message about it repeats, and how its points are named
    ((f"env.A=x,{TOKEN}",), TOKEN, {"env.A=…"}),
    (("env.DB_PASSWORD=hunter2,swordfish99",), "hunter2", {"env.DB_PASSWORD=…"}),
    (("env.WANDB_API_KEY=" + HASH[:40] + "," + HASH[20:60],), HASH[20:40], {"env.WANDB_API_KEY=…"}),
    (("env={DB_PASSWORD: hunter2},{}",), "hunter2", {"env=…"}),
    (("command=[train.py,--password,hunter2],[train.py]",), "hunter2", {"command=…"}),
    (("code=git", "code.repository=https://hunter2@h/a,https://h/a"), "hunter2", {"code.repository=…"}),
    (("env.DB_PASSWORD=hunter2,EMPTY", "seed=x"), "hunter2", {"env.DB_PASSWORD=…", "env.DB_PASSWORD=EMPTY"}),
    (("command=[train.py,--password,hunter2],[train.py]", "seed=x"), "hunter2", {"command=…", "command=['train.py']"}),
]


@pytest.mark.parametrize(("words", "secret", "points"), SWEPT, ids=lambda each: each if isinstance(each, str) else "")
@pytest.mark.parametrize("form", ["text", *FORMATS])
def test_nor_do_the_points_of_a_sweep(
    form: str, words: tuple[str, ...], secret: str, points: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where another mistake, such as seed=x, ends the compile before a rule could find the secret."""
    assert main(["check", "-m", *words, "--format", form]) == 1
    said = "".join(capsys.readouterr())
    assert secret not in said
    assert all(point in said for point in points)


@pytest.mark.parametrize("command", ["plan", "diff"])
def test_nor_do_other_commands_that_sweep(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "env.DB_PASSWORD=hunter2,swordfish99"]) != 0
    assert "hunter2" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("word", "is_secret"),
    [
        (f"env.WANDB_KEY={HASH[:40]}", True),
        ("env.wandb_api_key=abc123", True),
        (f"env.SERVICE_TOKEN={HASH}", True),
        ("env.SORT_KEY=length", False),
        ("env.TOKENIZER=gpt2", False),
        (f"env.CACHE_KEY={HASH}", False),
        ("env.WANDB_KEY=/run/secrets/key", False),
        (f"env.GIT_COMMIT={HASH[:40]}", False),
    ],
)
def test_a_variable_is_one_by_its_name_or_by_its_value_as_well(word: str, is_secret: bool) -> None:
    assert [each.code for each in found("JC4515", words=(word,))] == ["JC4515"] * is_secret
