"""The prose linter finds what it should in pages and docstrings, and nothing in code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT


def lint(*paths: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "prose.py"), *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_clean_pages_are_clean() -> None:
    done = lint()
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text", ["What is told of ranks", "It is no folder", "8 is none of 1, 2", "It ends with 65"])
def test_a_phrase_in_a_page_is_found(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{text}\n", encoding="utf-8")
    done = lint(page)
    assert done.returncode == 1 and f"{page}:3: " in done.stdout


def test_code_in_a_page_is_not_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n`told`\n\n```text\nis none of\n```\n\nThe job is no longer queued.\n", encoding="utf-8")
    assert lint(page).returncode == 0


def test_the_start_of_a_docstring_is_checked_and_comments_are_not(tmp_path: Path) -> None:
    source = tmp_path / "code.py"
    source.write_text('# told\ndef f():\n    """Of a rank."""\n', encoding="utf-8")
    assert lint(source).stdout == f"{source}:3: docstring begins with 'Of': begin with a verb or a noun\n"


@pytest.mark.parametrize("message", ['"x is no folder"', 'f"{x} is none of a, b"', 'f"key {x} is said twice"'])
def test_a_phrase_in_a_message_is_found(message: str, tmp_path: Path) -> None:
    source = tmp_path / "code.py"
    source.write_text(f"x = 1\nraise ValueError({message})\n", encoding="utf-8")
    done = lint(source)
    assert done.returncode == 1 and done.stdout.startswith(f"{source}:2: ")


def test_names_and_short_strings_are_not_checked(tmp_path: Path) -> None:
    source = tmp_path / "code.py"
    source.write_text('told = "told"\nthere = "there is no folder here"\n', encoding="utf-8")
    assert lint(source).returncode == 0


def test_a_missing_path_is_one_error(tmp_path: Path) -> None:
    done = lint(tmp_path / "none.md")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def spelling(*paths: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "codespell_lib", *paths]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_spelling_of_the_repository_is_right() -> None:
    done = spelling()
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["page.md", "code.py", "script.sh.j2"])
def test_a_misspelt_word_is_found(name: str, tmp_path: Path) -> None:
    text = "# the nodes recieve a signal\n"
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert "recieve ==> receive" in spelling(str(tmp_path)).stdout
