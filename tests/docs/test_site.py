"""The documentation site builds strictly without network: every page, every link and anchor, search, llms.txt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import PAGES, ROOT, build

pytestmark = pytest.mark.xdist_group("site")  # built once


def page_of(source: Path) -> str:
    """Path in the site of a page of the repository, without suffix."""
    name = source.relative_to(ROOT).as_posix()
    added = {"README.md": "index", "CONTRIBUTING.md": "contributing"}
    return added.get(name) or name.removeprefix("docs/").removesuffix(".md")


def test_every_page_is_in_the_site_as_html_and_as_markdown(site: Path) -> None:
    names = [*map(page_of, PAGES), *(f"backends/{file.parent.name}" for file in ROOT.glob("backends/*/README.md"))]
    assert [n for n in names for suffix in ("html", "md") if not (site / f"{n}.{suffix}").is_file()] == []


def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    loaded = r'<(?:link|script|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"'
    for file in site.rglob("*.html"):
        assert re.findall(loaded, file.read_text(encoding="utf-8")) == [], file.name
    for file in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*", file.read_text(encoding="utf-8")) == [], file.name


def test_every_picture_is_in_the_site(site: Path) -> None:
    pages = [(file, file.read_text(encoding="utf-8")) for file in site.rglob("*.html")]
    sources = [file.parent / source for file, text in pages for source in re.findall(r'<img[^>]* src="([^"]+)"', text)]
    assert len(sources) >= 3 and [source for source in sources if not source.is_file()] == []


def test_the_site_has_dark_mode_phone_width_and_search(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert 'name="viewport"' in text and 'data-md-color-scheme="slate"' in text and 'data-md-component="search"' in text


def test_llms_txt_has_a_title_and_one_line_for_each_page(site: Path) -> None:
    lines = (site / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# jobc" and lines[2].startswith("> ")
    links = [re.fullmatch(r"- \[[^]]+\]\(([^)]+)\): \S.*", line) for line in lines if line.startswith("-")]
    targets = [link[1] for link in links if link]
    assert len(targets) == len(links) == len(set(targets))
    assert set(targets) == {file.relative_to(site).as_posix() for file in site.rglob("*.md")}


@pytest.mark.parametrize("target", ["none.md", "page.md#none", "../none.py"])
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, target: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Start\n\n[text]({target})\n", encoding="utf-8")
    (docs / "page.md").write_text("# Page\n", encoding="utf-8")
    settings = re.search(r"^validation:\n(?: .*\n)+", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert settings
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"site_name: test\ntheme: mkdocs\nplugins: []\n{settings[0]}", encoding="utf-8")
    done = build(config, tmp_path / "site")
    assert done.returncode == 1 and "none" in done.stderr
