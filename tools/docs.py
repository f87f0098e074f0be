"""`make docs`: the generated pages of docs/: keys, environment, codes, engines, jobc ls, placement, glossary, figures.

usage: python tools/docs.py [--check] [PAGE…]
  --check  write nothing; print the names of stale pages, and exit with 1 if there are any
  PAGE     such as keys.md; default: all pages, of which placement.md takes half a minute
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".dev"))  # this checkout's jobc, whichever one is installed

from pages import codes, coverage, engines, environment, figures, glossary, keys, ls, pains, placement  # noqa: E402  # beside this file


def main(arguments: list[str]) -> int:
    makers: dict[str, Callable[[], str]] = {
        "keys.md": keys.page,
        "environment.md": environment.page,
        "codes.md": codes.page,
        **{f"codes/{family}.md": partial(codes.family_page, family) for family in codes.families()},
        "engines.md": engines.page,
        "reference/ls.md": ls.page,
        "placement.md": placement.page,
        "pains.md": pains.page,
        "coverage.md": coverage.page,
        "reference/glossary.md": glossary.page,
        "figures/pipeline.svg": figures.pipeline,
        "figures/artifact.svg": figures.artifact,
        "figures/life_cycle.svg": figures.life_cycle,
    }
    requested = [word for word in arguments if word != "--check"] or [*makers]
    if unknown := [name for name in requested if name not in makers]:
        print(f"no generated page {', '.join(unknown)}; there are {', '.join(makers)}", file=sys.stderr)
        return 2
    pages = {name: makers[name]() for name in requested}
    stale = [name for name, text in pages.items() if not _is(ROOT / "docs" / name, text)]
    gone = [file for file in (ROOT / "docs" / "codes").glob("*.md") if f"codes/{file.name}" not in makers]
    if "--check" in arguments:
        for name in stale:
            print(f"docs/{name} is stale: run make docs", file=sys.stderr)
        for file in gone:
            print(f"docs/codes/{file.name} does not belong to a code: run make docs", file=sys.stderr)
        return 1 if stale or gone else 0
    for file in gone:
        file.unlink()
    for name in stale:
        (ROOT / "docs" / name).parent.mkdir(exist_ok=True)
        (ROOT / "docs" / name).write_text(pages[name], encoding="utf-8")
    return 0


def _is(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
