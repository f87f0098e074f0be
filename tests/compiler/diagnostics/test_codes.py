"""Every diagnostic code has a page whose examples are true: the wrong commands give the code, the right ones compile.

The blocks run with bash in a folder with a few empty scripts, with a fresh HOME.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.compiler.cli import main
from jobc.compiler.diagnostics.code_heading import LONGEST, read_code_page_heading
from jobc.compiler.diagnostics.diagnostic import Diagnostic, format_for_terminal
from jobc.compiler.plugins.registry import PACKAGE, code_name, code_pages, codes_by_name
from jobc.tests.compiler import hints
from jobc.tests.quick_jobc import QuickJobc

PAGES = list(code_pages().values())
OF_RULES = [page for page in PAGES if "JC3001" <= page.stem < "JC3080"]  # of compiler/rules/plan/
# What the job means, by which a job is judged that is written well. The others are about files, words, types, plugins,
# artifact directories and bugs: there is no near miss to what cannot be read.
OF_MEANING = [
    page
    for page in PAGES
    if page.stem[:4] in ("JC20", "JC21", "JC30") or "JC4101" <= page.stem < "JC5"
    if page.stem not in ("JC2124", "JC3080", "JC3081", "JC3082", "JC3093")
]
STATUS = {"JC9001": 2, "JC3081": 0, "JC5010": 0, "JC5012": 0, "JC5013": 0}  # of a bug, and of what is never an error


def raised_codes() -> set[str]:
    """Codes in string literals that stand alone, as a Diagnostic has them; docstrings only mention codes."""
    sources = [*(PACKAGE / "compiler").rglob("*.py"), *(PACKAGE / "backends").rglob("*.py")]
    return {code for file in sources for code in re.findall(r'"(JC\d{4})"', file.read_text(encoding="utf-8"))}


def block(page: Path, heading: str) -> str:
    found = re.findall(
        rf"^## {heading}\n\n(?:(?!```|## )[^\n]+\n)*\n?```bash\n(.*?)```$",
        page.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    assert len(found) == 1, f"{page.name} needs one bash block below ## {heading}"
    return str(found[0])


Run = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(quick_jobc: QuickJobc, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """commands -> their finished bash"""
    path = os.pathsep.join((str(quick_jobc.folder), str(Path(sys.executable).parent), os.environ["PATH"]))

    def finished(commands: str) -> subprocess.CompletedProcess[str]:
        home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
        for script in ("train.py", "train.sh", "solver"):  # which jobc check looks for
            (folder / script).touch()
        environment = {**os.environ, "HOME": str(home), "PATH": path}
        environment.pop("XDG_CONFIG_HOME", None)
        script = ["bash", "-euo", "pipefail", "-c", commands]
        return subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return finished


def test_every_raised_code_has_a_page_and_every_page_a_code() -> None:
    pages, raised = {page.stem for page in PAGES}, raised_codes()
    lacking = [f"…/codes/{code}.md" for code in sorted(raised - pages)]
    assert not lacking, f"write {', '.join(lacking)}, in compiler/ or in the backend's folder"
    assert not pages - raised, "pages of codes that nothing raises"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_its_code_a_name_and_a_title(page: Path) -> None:
    first, blank, meaning = page.read_text(encoding="utf-8").split("\n")[:3]
    assert re.fullmatch(rf"# {page.stem} \S+: ([^A-Z]|[A-Z]{{2}}).*[^.]", first), "# CODE name: title"
    assert blank == "" and meaning


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_name_is_two_to_four_short_words(page: Path) -> None:
    name = read_code_page_heading(page).name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+){1,3}", name) and len(name) <= LONGEST


def test_no_two_codes_have_the_same_name() -> None:
    assert {name: codes for name, codes in codes_by_name().items() if len(codes) > 1} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_wrong_commands_give_the_code_and_its_hint_mends_them(page: Path, run: Run) -> None:
    commands = block(page, "Wrong").replace("\\\n", "").splitlines()
    done = run("\n".join(commands))
    assert f"[{page.stem} " in done.stderr, done.stdout + done.stderr
    assert done.returncode == STATUS.get(page.stem, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert hints.is_prose(done.stderr, page.stem) == (page.stem in hints.PROSE), "take it into PROSE, or out"
    if page.stem in hints.PROSE or page.stem in hints.NOT_ALL:
        return
    for words in hints.followed(commands, page.stem, done.stderr):
        mended = run("\n".join([*commands[:-1], shlex.join(["jobc", *words])]))
        if f"[{page.stem} " not in mended.stderr and mended.returncode == 0:
            return
    pytest.fail(f"{done.stderr}\n\njobc {shlex.join(words)}\n{mended.stderr}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_right_commands_compile(page: Path, run: Run) -> None:
    done = run(block(page, "Right"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", OF_MEANING, ids=lambda page: page.stem)
def test_the_near_miss_is_no_finding(page: Path, run: Run) -> None:
    done = run(block(page, "Near miss"))
    assert done.returncode == 0 and page.stem not in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sources_are_links_that_are_called_what_they_are(page: Path) -> None:
    _, heading, sources = page.read_text(encoding="utf-8").partition("\n## Sources\n\n")
    assert all(re.match(r"- (.*\]\(|found by reading )", line) for line in sources.splitlines()), sources
    links = re.findall(r"\[([^]]+)\]\(([^)]*)\)", sources)
    assert len({target for _, target in links}) == len(links), "a source stands there twice"
    for name, target in links:
        assert re.fullmatch(r"https://[^\s/]+\.[^\s/]+/\S*", target)
        site, _, path = target.removeprefix("https://").partition("/")
        if site == "github.com" and "/blob/" in path:
            assert path.endswith(f"/{name}")
        elif site == "github.com":  # a thread, or a repository
            assert name.replace("#", "/") == re.sub(r"/(issues|pull)/(?=\d+$)", "/", path)
    assert bool(sources.strip()) == bool(heading)
    assert heading or page not in OF_RULES


def test_a_rule_begins_with_its_codes() -> None:
    files = [file for part in ("compiler", "backends") for file in (PACKAGE / part).glob("**/rules/**/[a-z]*.py")]
    codes = set()
    for file in files:
        text = file.read_text(encoding="utf-8")
        rules = re.findall(r"^def check_\w+\(.*?(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE) or [text]
        for rule in rules:
            said = re.search(r'(?:^|:\n    )"""(JC\d{4}(?:, JC\d{4})*): ', rule)
            assert said, f"a rule in {file} begins with its code"
            listed = set(said[1].split(", "))
            assert {*re.findall(r'"(JC\d{4})"', rule)} <= listed, f"{said[1]} in {file} has another code"
            codes |= listed
    assert codes >= {page.stem for page in OF_RULES}


@pytest.mark.parametrize("spelling", ["JC2001", "jc2001", "more-procs-than-gpus", "More-Procs-Than-GPUs"])
def test_explain_prints_the_page(spelling: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", spelling]) == 0
    assert capsys.readouterr().out == code_pages()["JC2001"].read_text(encoding="utf-8")


def test_explain_without_a_code_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in lines] == [page.stem for page in PAGES]
    assert "JC3011 taken-port: a port that may be taken" in lines


def test_explain_suggests_a_near_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "JC20O1"]) == 1
    printed = capsys.readouterr().err
    suggested = re.search(r"hint: jobc explain (JC\d{4})", printed)
    assert "[JC1111 " in printed and suggested and suggested[1] in code_pages()


def test_a_diagnostic_is_printed_with_its_code_and_its_name() -> None:
    found = [Diagnostic("JC3011", "a port that may be taken"), Diagnostic("ACME01", "a code without a page")]
    shown = format_for_terminal(found, name_of=code_name).split("\n\n")
    assert shown == ["error[ACME01]: a code without a page", "error[JC3011 taken-port]: a port that may be taken"]


@pytest.mark.parametrize(("word", "hint"), [("taken-prot", "explain taken-port"), ("no-such-thing", "explain lists")])
def test_explain_suggests_a_near_name(word: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word]) == 1
    printed = capsys.readouterr().err
    assert f"no diagnostic has the code or name {word}\n" in printed and f"= hint: jobc {hint}" in printed
