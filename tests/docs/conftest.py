"""Markdown pages as data: their commands with the output shown, their links, and their words in code.

A page is README.md, CONTRIBUTING.md, or a .md file in docs/, docs/reference/ or docs/extending/. Its ```bash blocks run
in order, each in its own bash, all in one folder per page. A ```text block directly after one shows its output.
`<!-- in a checkout -->` above a block runs it in a copy of this checkout instead; all blocks of CONTRIBUTING.md and
docs/extending/ run there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTENDING = sorted((ROOT / "docs" / "extending").glob("*.md"))
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "reference").glob("*.md"),
        *EXTENDING,
    ]
)
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]


FENCED = (
    r"(?P<mark><!-- in a checkout -->\n)?^(?P<fence>```+)bash\n(?P<run>.*?)^(?P=fence)\n"
    r"(?:\n```text\n(?P<shown>.*?)^```\n)?"
)


@dataclass(frozen=True)
class Block:
    """One command block. line: its line number in the page; shown: the text block below it, None if there is none."""

    line: int
    commands: str
    shown: str | None
    in_checkout: bool


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(FENCED, text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, found.start("run")) + 1
        changes_jobc = page.name == "CONTRIBUTING.md" or page in EXTENDING
        yield Block(line, found["run"], found["shown"], bool(found["mark"]) or changes_jobc)


def prose(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return re.sub(r"^(```+)\w.*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


# Text that differs between runs and machines. A `…` on a page stands for any text; alone on a line, for any lines.
MASKS = (
    (r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN_ID"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
    (r"\b\d+ files\b", "N files"),
    (r"\b[0-9a-f]{16,64}\b", "DIGEST"),
    (r"on \S+ at TIME", "on HOST at TIME"),
    (r"on \S+; rendezvous at \S+:\d+", "on HOST; rendezvous at HOST:PORT"),
    (r"(loss|bits/byte|accuracy) [0-9.]+", r"\1 X"),
    (r"[0-9,]+ (tok|samples)/s", r"N \1/s"),
    (r"eta [0-9:]+", "eta T"),
)


def masked(text: str) -> str:
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return text.rstrip()


def agrees(shown: str, printed: str) -> bool:
    pattern = re.escape(masked(shown)).replace("\\\n…", "(\n.*)?").replace("…", "[^\n]*")
    return re.fullmatch(pattern, masked(printed), re.DOTALL) is not None


# Any connection fails, because the build must not need one.
NO_NETWORK = """\
import socket
def refuse(*_, **__): raise OSError("the site must build without network")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from mkdocs.__main__ import cli
cli()
"""


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Run mkdocs without network."""
    command = [sys.executable, "-c", NO_NETWORK, "build", "--strict", "-f", str(config), "-d", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder
