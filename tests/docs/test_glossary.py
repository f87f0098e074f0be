"""The glossary has one term for each thing, says where other tools' words are from, and the pages use its terms."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from .conftest import IDS, PAGES, ROOT, prose

sys.path.insert(0, str(ROOT / "tools"))
from pages import glossary  # type: ignore[import-not-found]  # beside tools/docs.py

GLOSSARY = glossary.read()
TERMS = {name: term for terms in GLOSSARY["terms"].values() for name, term in terms.items()}
AVOIDED = {word: name for name, term in TERMS.items() for word in term.get("avoid", ())}
OTHER_TOOLS = ("pains.md", "coming-from.md")  # which quote what others write


def test_a_term_stands_once_and_is_not_a_word_to_avoid() -> None:
    assert len(TERMS) == sum(map(len, GLOSSARY["terms"].values()))
    assert not TERMS.keys() & AVOIDED.keys()


def test_each_tool_has_a_source_and_each_source_a_word() -> None:
    assert {tool for term in TERMS.values() for tool in term.get("elsewhere", {})} == set(GLOSSARY["sources"])


def test_each_of_the_five_tools_is_compared_in_ten_terms() -> None:
    for tool in ("Slurm", "torchrun", "Kubernetes", "SkyPilot", "accelerate"):
        assert sum(tool in term.get("elsewhere", {}) for term in TERMS.values()) >= 10, tool


@pytest.mark.parametrize("term", TERMS)
def test_each_term_is_used_on_another_page(term: str) -> None:
    pages = (prose(page) for page in PAGES if page.name != "glossary.md")
    assert any(re.search(rf"\b{term}s?\b", text, re.IGNORECASE) for text in pages)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_no_page_uses_another_word_for_a_term(page: Path) -> None:
    text = prose(page) if page.name not in OTHER_TOOLS else ""
    found = [f"{word}: {AVOIDED[word]}" for word in AVOIDED if re.search(rf"\b{word}\b", text, re.IGNORECASE)]
    assert found == []
