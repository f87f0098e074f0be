"""Files in a folder of rules: which functions are rules, and which files are mistakes of their author."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.compiler.rules import findings

FORMS = {
    "a function": "def check(plan, options):\n    yield plan",
    "a function with a name": "def check_hosts(plan, options):\n    yield plan",
    "any arguments": "def check(*arguments):\n    yield arguments[0]",
    "a partial function": "from functools import partial\n\ndef _rule(key, plan, options):\n    yield plan\n\n"
    "check = partial(_rule, 'nodes')",
    "decorated": "from ._shared import quietly\n\n@quietly\ndef check(plan, options):\n    yield plan",
}
MISTAKES = {
    "def chek(plan, options):\n    yield plan": "has no function check or check_NAME",
    "from ._shared import check_shared": "has no function check or check_NAME",
    "def check(plan):\n    yield plan": "check must take 2 arguments: ",
    "def check(plan, options, *, key):\n    yield plan": "check must take 2 arguments: ",
    "check = None": "check is not a function",
    "def check(plan, options):\n    yield plan\n\ndef checks(plan):\n    yield plan": "checks is neither",
}
SHARED = """
def quietly(rule):
    def wrapped(*arguments):
        yield from rule(*arguments)
    return wrapped

def check_shared(plan, options):
    yield plan
"""


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[object]]:
    """Return a function that returns the diagnostics of the rules in a plugin's file."""

    def findings_of(text: str, name: str = "hosts.py") -> list[object]:
        folder = f"rules_{abs(hash(text))}"
        (tmp_path / folder).mkdir()
        for file, content in (("__init__.py", ""), ("_shared.py", SHARED), (name, f"{text}\n")):
            (tmp_path / folder / file).write_text(content)
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        return list(findings(folder, "plan", "options"))

    return findings_of


@pytest.mark.parametrize("form", FORMS)
def test_a_rule_is_any_of_these(form: str, found: Callable[..., list[object]]) -> None:
    assert found(FORMS[form]) == ["plan"]


def test_the_name_of_a_file_may_begin_with_any_character_but_an_underscore(found: Callable[..., list[object]]) -> None:
    assert found("def check(plan, options):\n    yield plan # JC", "JC2099.py") == ["plan"]


@pytest.mark.parametrize("text", MISTAKES)
def test_a_file_without_a_rule_that_can_be_called_is_an_error(text: str, found: Callable[..., list[object]]) -> None:
    with pytest.raises(TypeError) as error:
        found(text)
    assert str(error.value).startswith("rules_") and "hosts: " in str(error.value)
    assert MISTAKES[text] in str(error.value)
