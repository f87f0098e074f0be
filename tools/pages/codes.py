"""codes.md and codes/JCNN.md: the diagnostics, from the page of each code."""

from __future__ import annotations

import re
from pathlib import Path

from jobc.compiler.diagnostics.code_heading import read_code_page_heading

from ._common import GENERATED, ROOT, table

FAMILIES = {
    "JC10": "Config files",
    "JC11": "Overrides, groups, the command line",
    "JC12": "Types",
    "JC20": "Contradictions",
    "JC21": "Problems in a job's estimates",
    "JC30": "Failures at run time; allowed diagnostics; site policies",
    "JC40": "Backends in general",
    "JC41": "What a backend does not support",
    "JC50": "Artifact directories",
    "JC90": "Bugs in jobc or in a backend",
}


def code_files() -> dict[str, Path]:
    """Return each code's page, for jobc and its own backends but not for installed plugins."""
    folders = [ROOT / "compiler" / "diagnostics" / "codes", *ROOT.glob("backends/*/codes")]
    return {file.stem: file for file in sorted((f for d in folders for f in d.glob("*.md")), key=lambda f: f.stem)}


def families() -> dict[str, list[Path]]:
    """Return, for each family (the first four characters of its codes, such as JC20), the family's pages."""
    pages: dict[str, list[Path]] = {}
    for code, file in code_files().items():
        pages.setdefault(code[:4], []).append(file)
    return pages


def family_title(family: str) -> str:
    backends = [file.parents[1].name for file in families()[family] if file.is_relative_to(ROOT / "backends")]
    return FAMILIES.get(family) or f"Backend {backends[0]}"


def page() -> str:
    out = ["# Diagnostic codes\n", GENERATED]
    out.append("`jobc explain CODE` (or NAME) prints a code's page: its meaning, a wrong example and a right one.\n")
    for family, files in families().items():
        rows = [_row(file, family) for file in files]
        out += [f"## {family_title(family)}\n", table(("code", "name", "title"), *rows)]
    return "\n".join(out)


def _row(file: Path, family: str) -> tuple[str, str, str]:
    heading = read_code_page_heading(file)
    anchor = f"{file.stem.lower()}-{heading.name}"
    return f"[{file.stem}](codes/{family}.md#{anchor})", f"`{heading.name}`", heading.title


def code_title(file: Path) -> str:
    return read_code_page_heading(file).title


def family_page(family: str) -> str:
    """Return all of a family's pages, one after another. Links are relative to docs/codes/."""
    files = families()[family]
    out = [f"# {family}: {family_title(family)}\n", GENERATED]
    for file in files:
        _, _, text = file.read_text(encoding="utf-8").partition("\n\n")
        text = re.sub(r"\]\((?:\.\./)+docs/", "](../", re.sub(r"^## ", "### ", text, flags=re.MULTILINE))
        heading = read_code_page_heading(file)
        out += [f"## {file.stem} {heading.name}\n", f"**{_sentence(heading.title)}** {text}"]
    return "\n".join(out)


def _sentence(title: str) -> str:
    """Return the title as a sentence. Keys such as `storage.run`, and words such as fp16, stay in lower case."""
    is_word = re.match(r"[a-z-]+(?: |$)", title)
    return f"{title[0].upper() if is_word else title[0]}{title[1:]}."
