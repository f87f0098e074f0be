"""Every command of every page works as shown, every link leads somewhere, every key and file named exists."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.spec.job_spec import JobSpec
from jobc.compiler.spec.type_hints import type_of_key
from jobc.runtime import exit_codes
from jobc.tests.quick_jobc import QuickJobc

from .conftest import EXTENDING, IDS, PAGES, ROOT, agrees, blocks, masked, prose

# Lines that are not run, for each would run this very test or take minutes; `make -n` shows that they exist.
NOT_RUN = {
    "make demo   # compiles a small job and trains it in 2 processes on this machine; takes a minute or two",
    "make test   # runs every test",
    "make check  # lint, types, layers, tests: what CI runs",
}
OF_THE_USER = ("cluster", "experiment")  # groups that have options only when a user writes some
TIMEOUT_S = 300
MOST_WORDS = 10_000
EDITED = {  # page of docs/extending -> existing files that its commands edit by hand; generated ones are not counted
    "backend.md": set[str](),
    "rule.md": set[str](),
    "key.md": {
        "conf/config.yaml",
        "compiler/spec/job_spec.py",
        "compiler/plan/launch_plan.py",
        "compiler/templates/launch.sh.j2",
    },
}


@pytest.fixture
def checkout(page: Path, tmp_path: Path) -> Path:
    """A copy of what a commit of the working tree would hold, with `.venv`; the page may change it. The working tree
    itself for a page that runs nothing in it.
    """
    if not any(block.in_checkout for block in blocks(page)):
        return ROOT
    target = tmp_path / "checkout"
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    for part in ("compiler", "backends", "runtime", "trainer"):  # else the first command compiles all modules
        for bytecode in (ROOT / part).rglob("__pycache__"):
            shutil.copytree(bytecode, target / bytecode.relative_to(ROOT))
    (target / ".venv").symlink_to(sys.prefix)
    return target


def pages_with_commands() -> list[Any]:
    long, marks = (ROOT / "README.md", *EXTENDING), [pytest.mark.slow, pytest.mark.timeout(1200)]
    found = [page for page in PAGES if any(blocks(page))]
    return [pytest.param(p, id=p.name, marks=marks if p in long else []) for p in found]


@pytest.mark.parametrize("page", pages_with_commands())
def test_the_commands_do_what_the_page_shows(page: Path, checkout: Path, tmp_path: Path, quick_jobc: QuickJobc) -> None:
    """A page that is about a checkout, as README.md is, runs the installed command."""
    folder, home, site = (tmp_path / name for name in ("project", "home", "site"))
    folder.mkdir()
    home.mkdir()
    quick = [str(quick_jobc.folder)] if checkout == ROOT else []
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "JOBC_", "XDG_", "PIP_"))},
        "CI": "",  # a reader at a terminal, who may accept goldens
        "HOME": str(home),
        "PATH": os.pathsep.join([*quick, str(Path(sys.executable).parent), os.environ["PATH"]]),
        # those that our settings need, for importing all takes a second; and jobctl starts faster
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_timeout,xdist.plugin",
        "PYTHONPATH": os.pathsep.join([str(site), str(checkout / ".dev")]),
        # pip installs for this page alone, from folders alone
        "PIP_TARGET": str(site), "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_QUIET": "2",
        "PIP_NO_BUILD_ISOLATION": "0", "PIP_UPGRADE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip
    before = written_by_hand(checkout) if page in EXTENDING else {}
    for block in blocks(page):
        lines = block.commands.split("\n")
        commands = "\n".join(f"make -n {line.split()[1]} >&-" if line in NOT_RUN else line for line in lines)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=checkout if block.in_checkout else folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        where = f"{page.name}:{block.line}"
        assert done.returncode == 0, f"{where} exited with {done.returncode}:\n{done.stdout}"
        if block.shown is not None and not agrees(block.shown, done.stdout):
            shown, printed = masked(block.shown).split("\n"), masked(done.stdout).split("\n")
            pytest.fail("\n".join(difflib.unified_diff(shown, printed, where, "printed", lineterm="")))
    if page in EXTENDING:
        after = written_by_hand(checkout)
        assert {name for name, text in before.items() if after.get(name) != text} == EDITED[page.name]


def written_by_hand(checkout: Path) -> dict[str, bytes]:
    """File -> content, of all but goldens, generated pages, and what lies in folders that tools fill."""
    files = (file for part in checkout.iterdir() if part.name not in (".venv", ".dev") for file in _files(part))
    texts = {file.relative_to(checkout).as_posix(): file.read_bytes() for file in files}
    generated = ("tests/golden/", "artifacts/", "runs/")  # beside bytecode
    return {
        name: text
        for name, text in texts.items()
        if not name.startswith(generated) and not name.endswith(".pyc") and b"<!-- Generated by `make docs`" not in text
    }


def _files(part: Path) -> list[Path]:
    return [part] if part.is_file() else [file for file in part.rglob("*") if file.is_file()]


def test_few_lines_are_not_run_and_each_is_on_a_page() -> None:
    assert len(NOT_RUN) <= 3
    assert {line for page in PAGES for block in blocks(page) for line in block.commands.split("\n")} >= NOT_RUN


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    for text, target in re.findall(r"\[([^]]*)\]\(([^)]+)\)", prose(page)):
        if target.startswith("http"):
            continue
        path, _, heading = target.partition("#")
        place = page.parent / path if path else page
        assert place.exists(), f"{text}: {target}"
        if heading:
            assert heading in _headings(place), f"{text}: no heading {heading} in {place.name}"


@cache
def _headings(page: Path) -> set[str]:
    """Anchors as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_keys_in_the_text_exist(page: Path) -> None:
    for code in re.findall(r"`([^`\n]+)`", prose(page)):
        for word in code.split(" -- ")[0].split():
            found = re.match(r"[+~]?([a-z]\w*(?:\.\w+)*)=", word)
            assert not found or _is_key(found[1]), f"{page.name} has `{code}`, and {found[1]} is no key and no group"


def _is_key(name: str) -> bool:
    return type_of_key(JobSpec, name) is not None or name in _groups() or name in _options()


@cache
def _groups() -> set[str]:
    folders = [*(ROOT / "conf").iterdir(), *ROOT.glob("backends/*/conf/*")]
    return {folder.name for folder in folders if folder.is_dir()} | set(OF_THE_USER)


@cache
def _options() -> set[str]:
    texts = [file.read_text(encoding="utf-8") for file in ROOT.glob("backends/*/conf/backend/*.yaml")]
    return {f"backend.{name}" for text in texts for name in re.findall(r"^(\w+):", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_files_of_the_repository_in_the_text_exist(page: Path) -> None:
    tops = "compiler|backends|conf|trainer|tests|tools|docs|bench|prove"
    for path in re.findall(rf"`((?:{tops})/[\w./-]+)`", prose(page)):
        if not re.search(r"NAME|CASE|GROUP|nice|JCNNNN", path):
            assert (ROOT / path).exists(), f"{page.name} names {path}"


@pytest.mark.parametrize("page", ["docs/reference/exit-codes.md"])
def test_every_exit_code_is_in_the_table(page: str) -> None:
    codes = re.findall(r"^\| (\d+) \|", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert codes == [str(code) for code in exit_codes.MEANING]


def test_the_hand_written_pages_of_docs_are_short() -> None:
    """Words outside command blocks and without the bars of tables."""
    pages = [page for page in PAGES if page.is_relative_to(ROOT / "docs")]
    texts = [prose(page) for page in pages if "<!-- Generated by `make docs`" not in page.read_text(encoding="utf-8")]
    assert sum(bool(re.search(r"\w", word)) for text in texts for word in text.split()) <= MOST_WORDS


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_page_is_short_and_ends_well(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ") and text.endswith("\n") and "\t" not in text
