"""Draw sentences of the documentation by seed, for a reader who judges whether a native engineer would write them.

usage: python tools/sentences.py SEED [COUNT]
  SEED   the same seed draws the same sentences, as long as the pages do not change
  COUNT  default: 50

Pages: README.md, CONTRIBUTING.md, docs/ (except for the pages of codes, decisions and proof), and the backends'
READMEs.
Prints one FILE: SENTENCE per line. Table rows with five or more words count as sentences.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/*.md", "docs/reference/*.md", "docs/extending/*.md", "backends/*/README.md")
END = r"(?<=[.:;!?])\s+(?=[A-Z`*\[])"


def sentences(page: Path) -> Iterator[str]:
    """Yield sentences of five words or more, outside fenced blocks; links and code do not count."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^(```+)\w*\n.*?^\1$|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?=[|#]|\s*- |    \S)", text):
        for sentence in re.split(END, " ".join(paragraph.split())):
            plain = re.sub(r"\[[^]]*\]\([^)]*\)|`[^`]*`", "", sentence)
            if len(re.findall(r"\b[a-z]{2,}\b", plain)) >= 5 and not sentence.startswith("#"):
                yield sentence


def main(arguments: list[str]) -> int:
    if not arguments or not all(word.isdigit() for word in arguments) or len(arguments) > 2:
        print("usage: python tools/sentences.py SEED [COUNT]", file=sys.stderr)
        return 2
    seed, count = int(arguments[0]), int(arguments[1]) if len(arguments) == 2 else 50
    pages = sorted({page for pattern in PAGES for page in ROOT.glob(pattern)})
    pool = [f"{page.relative_to(ROOT)}: {sentence}" for page in pages for sentence in sentences(page)]
    drawn = random.Random(seed).sample(pool, min(count, len(pool)))
    print(f"{len(drawn)} of {len(pool)} sentences, seed {seed}", *drawn, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
