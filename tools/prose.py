"""`make lint`: find phrases that are not plain technical English, in pages, docstrings and messages.

usage: python tools/prose.py [PATH…]
  PATH  a .md file, a .py file (docstrings, and strings of three or more words) or a folder of them; default: CLEAN

Prints one line for each finding, and exits with 1 if there are any. Code spans and fenced blocks are not read.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = ("compiler", "backends", "runtime", "trainer", "prove", "tools")
CLEAN = (
    "README.md",
    "docs/bring-your-own.md",
    "docs/checks.md",
    "docs/claims.md",
    "docs/cluster-profiles.md",
    "docs/coming-from.md",
    "docs/configuration.md",
    "docs/containers.md",
    "docs/network.md",
    "docs/object_storage.md",
    "docs/parallel.md",
    "docs/plan.md",
    "docs/runs.md",
    "docs/secrets.md",
    "docs/security.md",
    "docs/sweeps.md",
    "docs/troubleshooting.md",
    "docs/values.md",
    "docs/verify.md",
    "docs/watching.md",
    "docs/your-script.md",
    "docs/extending",
    "docs/reference",
    *(str(file.relative_to(ROOT)) for file in sorted(ROOT.glob("backends/*/README.md"))),
    *(str(file.relative_to(ROOT)) for folder in CODE for file in sorted((ROOT / folder).rglob("*.py"))),
)
PHRASES = (
    (r"\btold\b(?! to\b)", "prints, logs, reports or warns"),
    (r"(?<!there )\bis no (?!longer\b|more\b|such\b)\w+", "is not a"),
    (r"\bis none of\b", "must be one of"),
    (r"\b(?:ends?|ended) with \d+\b", "exits with"),
    (r"\blies? over\b", "overrides"),
    (r"\breckon(?:s|ed)?\b", "computes"),
    (r"\bwithout a word\b", "without output"),
    (r"\bhas no word for\b", "does not support"),
    (r"\bwhoever\b|\bthereof\b", "anyone who"),
    (r"\bNot known (?:is|are)\b", "unknown"),
    (r"\b(?:is|are) said\b(?! to\b)", "is set or is printed"),
    (r"\bthat it has not\b", "that it does not have"),
    (r"\bgoes on with\b", "continues with or resumes with"),
    (r"\bthe start (?:fails|hangs|takes)\b", "startup"),
    (r"\bfrom \d+\.\d+ on\b", "since"),
    (r"[,;] (?:None|\"\"|\(\)|\[\]|\{\}) if\b", "or … if"),
    (r"\bother way round\b", "the reverse"),
    (r"\btrainings\b", "training runs"),
    (r"\b(?:behaviour|misspelt|licence|signalled)\b", "the American spelling"),
    (r", for (?:it|they|he|that|there) (?:is|are|has|have|was|were)\b", "because"),
)
DOCSTRING_STARTS = re.compile(r"(?:Of|As|What|Whether|Those|The same)\b")


def findings(line: str) -> Iterator[tuple[str, str]]:
    """Yield the phrase and the advice for each finding in one line of text."""
    for pattern, advice in PHRASES:
        for match in re.finditer(pattern, line, re.IGNORECASE):
            yield match[0], advice


def page_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a Markdown page, without fenced blocks and code spans."""
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        mark = re.match(r"`{3,}", line)
        if mark and (not fence or mark[0] == fence):
            fence = "" if fence else mark[0]
        elif not fence:
            yield number, re.sub(r"`[^`]*`", "", line)


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line number and the text of each docstring in a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.body[0].lineno, docstring


def messages(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and text of each string of three or more words, without placeholders and docstrings."""
    tree = ast.parse(text)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            skipped.update(map(id, node.values))
            words = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            words = node.value
        else:
            continue
        if len(words.split()) > 2:
            yield node.lineno, words


def check(file: Path) -> Iterator[str]:
    """Yield one line of output for each finding in a file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        for number, line in page_lines(text):
            yield from (f"{file}:{number}: '{phrase}': write '{advice}'" for phrase, advice in findings(line))
        return
    for number, message in () if file.resolve() == Path(__file__).resolve() else messages(text):
        prose = re.sub(r"`[^`]*`", "", message)
        yield from (f"{file}:{number}: '{phrase}': write '{advice}'" for phrase, advice in findings(prose))
    for start, docstring in docstrings(text):
        if match := DOCSTRING_STARTS.match(docstring):
            yield f"{file}:{start}: docstring begins with '{match[0]}': begin with a verb or a noun"
        for number, line in enumerate(docstring.splitlines(), start=start):
            prose = re.sub(r"`[^`]*`", "", line)
            yield from (f"{file}:{number}: '{phrase}': write '{advice}'" for phrase, advice in findings(prose))


def main(arguments: list[str]) -> int:
    paths = [Path(name) for name in arguments] or [ROOT / name for name in CLEAN]
    if missing := [str(path) for path in paths if not path.exists()]:
        print(f"error: {', '.join(missing)}: no such file or folder", file=sys.stderr)
        return 2
    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    lines = [line for file in files if file.suffix in (".md", ".py") for line in check(file)]
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
