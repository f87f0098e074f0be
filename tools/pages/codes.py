"""codes.md and codes/JCNN.md: the diagnostics, out of the page of each code."""

from __future__ import annotations

import re
from pathlib import Path

from ._common import GENERATED, ROOT, table

FAMILIES = {
    "JC10": "Config files",
    "JC11": "Overrides, groups, the command line",
    "JC12": "Types",
    "JC20": "Contradictions",
    "JC21": "What the figures of a job say",
    "JC30": "What would fail where it runs; what is allowed; policies of a site",
    "JC40": "Backends as such",
    "JC41": "What a backend cannot do",
    "JC50": "Artifact directories",
    "JC90": "Bugs, of jobc or of a backend",
}


def code_files() -> dict[str, Path]:
    """Code -> its page, of jobc and its backends, not of plugins that happen to be installed."""
    folders = [ROOT / "compiler" / "codes", *ROOT.glob("backends/*/codes")]
    return {file.stem: file for file in sorted((f for d in folders for f in d.glob("*.md")), key=lambda f: f.stem)}


def families() -> dict[str, list[Path]]:
    """First four letters of the codes, such as JC20 -> the pages of that family."""
    found: dict[str, list[Path]] = {}
    for code, file in code_files().items():
        found.setdefault(code[:4], []).append(file)
    return found


def family_title(family: str) -> str:
    backends = [file.parents[1].name for file in families()[family] if file.is_relative_to(ROOT / "backends")]
    return FAMILIES.get(family) or f"Backend {backends[0]}"


def page() -> str:
    out = ["# Diagnostic codes\n", GENERATED]
    out.append("`jobc explain CODE` prints the page: what it means, a wrong and a right example.\n")
    for family, files in families().items():
        rows = [(f"[{file.stem}](codes/{family}.md#{file.stem.lower()})", code_title(file)) for file in files]
        out += [f"## {family_title(family)}\n", table(("code", "title"), *rows)]
    return "\n".join(out)


def code_title(file: Path) -> str:
    return file.read_text(encoding="utf-8").split("\n")[0].split(": ", 1)[1]


def family_page(family: str) -> str:
    """All pages of a family, one after another. Links begin in docs/codes/."""
    files = families()[family]
    out = [f"# {family}: {family_title(family)}\n", GENERATED]
    for file in files:
        _, _, text = file.read_text(encoding="utf-8").partition("\n\n")
        text = re.sub(r"\]\((?:\.\./)+docs/", "](../", re.sub(r"^## ", "### ", text, flags=re.MULTILINE))
        out += [f"## {file.stem}\n", f"**{_sentence(code_title(file))}** {text}"]
    return "\n".join(out)


def _sentence(title: str) -> str:
    return f"{title[0].upper()}{title[1:]}."
