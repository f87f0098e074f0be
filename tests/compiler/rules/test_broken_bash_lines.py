"""JC2024: lines of bash that bash cannot parse, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.compiler import bash_syntax
from jobc.compiler.bash_syntax import syntax_error
from jobc.compiler.diagnostics.diagnostic import Severity
from jobc.compiler.frontend.observed_files import are_answers_unchanged, record_answers
from jobc.tests.compiler.diagnosed import found


@pytest.mark.parametrize("key", ["setup", "before", "per_node", "then", "after"])
def test_lines_that_bash_cannot_parse_are_reported_at_their_key(key: str) -> None:
    [diagnostic] = found("JC2024", "train.py", words=(f'{key}=["if true; then","echo a"]',))
    assert (diagnostic.key, diagnostic.judgment) == (key, True)
    line = 2 if key == "then" else 3  # each entry is a script of its own
    assert diagnostic.because.startswith(f"bash reports line {line}: syntax error: unexpected end of file")


@pytest.mark.parametrize("lines", ["echo $(date", "fi", "cat <<END\na", "x=(1", 'echo "a'])
def test_bash_says_why(lines: str) -> None:
    assert syntax_error(f"{lines}\n").startswith("line ")


@pytest.mark.parametrize(
    "lines", ["shopt -s extglob\nls !(*.tmp)", "cat <<END\n( it's\nEND", "f() { echo a; }; f # it's"]
)
def test_lines_that_bash_runs_are_not_reported(lines: str) -> None:
    assert syntax_error(f"{lines}\n") == ""


def test_no_line_is_run(tmp_path: Path) -> None:
    assert syntax_error(f"echo >{tmp_path}/made\n: $(echo >{tmp_path}/made)\n") == ""
    assert not [*tmp_path.iterdir()]


def test_a_machine_without_bash_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash_syntax.shutil, "which", lambda _: None)
    assert syntax_error("fi # without bash\n") == ""


def test_lines_that_bash_has_not_parsed_in_time_are_reported_as_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash_syntax, "TIMEOUT_S", 0)
    with record_answers() as answers:
        [diagnostic] = found("JC2024", "train.py", words=('setup=["fi # too late"]',))
    assert (diagnostic.key, diagnostic.severity) == ("setup", Severity.WARNING)
    assert diagnostic.title == "setup: not checked, because bash did not respond within 0 s"
    assert not are_answers_unchanged(answers), "the next compile asks bash again"
