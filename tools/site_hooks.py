"""MkDocs hooks: build the documentation site from all of the repository's pages, with llms.txt and the pages as text.

usage: mkdocs build   (mkdocs.yml names this file; `make site`)

Adds README.md, CONTRIBUTING.md and each backend's README to the pages in docs/, points links at the site's pages, and
replaces a link to any other file in the repository by the file's path. Writes site/llms.txt and, next to each page
X.html, its Markdown X.md.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
CODE_PAGE = re.compile(r"(?:compiler/diagnostics|backends/\w+)/codes/(JC\d{4})\.md")
LINK = re.compile(r"\[(?P<text>[^]\n]*)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
LLMS = "llms.txt"
# Pages' weights in the search: a page that answers a question comes before records and long tables.
BOOST = {"troubleshooting.md": 4.0, "decisions/": 0.2, "codes": 0.5, "pains.md": 0.4, "engines.md": 0.3, "proof/": 0.5}

_navigation: list[Navigation] = []  # MkDocs passes the navigation to only one event
_texts: dict[str, tuple[str, str]] = {}  # source path of a page -> its title and its Markdown


def added_pages() -> dict[str, str]:
    """Return path in the site -> path in the repository, for the pages outside docs/."""
    backends = {f"backends/{file.parent.name}.md": file for file in sorted(ROOT.glob("backends/*/README.md"))}
    pages = {"index.md": ROOT / "README.md", "contributing.md": ROOT / "CONTRIBUTING.md", **backends}
    return {name: file.relative_to(ROOT).as_posix() for name, file in pages.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, path in added_pages().items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    _navigation[:] = [nav]
    _texts.clear()
    return nav


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    text = site_markdown(markdown, page.file.src_uri)
    if page.parent is None:  # a tab with one page needs no navigation, so its text gets the width
        page.meta["hide"] = ["navigation"]
    boosts = [factor for start, factor in BOOST.items() if page.file.src_uri.startswith(start)]
    page.meta["search"] = {"boost": boosts[0] if boosts else 1.0}
    title = re.search(r"^# (.*)$", text, re.MULTILINE)
    _texts[page.file.src_uri] = (title[1].replace("`", "") if title else page.file.src_uri, text)
    return text


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    for name, (_, text) in _texts.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    (site / LLMS).write_text("\n".join(llms_lines(config, _navigation[0])) + "\n", encoding="utf-8")


def site_markdown(markdown: str, name: str) -> str:
    """Return the Markdown of page `name` with the site's links. Fenced blocks are not changed."""
    lines, fence = [], ""
    for line in markdown.split("\n"):
        mark = re.match(r"\s*(`{3,})", line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        elif not fence:
            line = LINK.sub(lambda match: site_link(match, name), line)
            if line.startswith("|"):  # GitHub needs the backslash in code; Python-Markdown prints it
                line = re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line)
        lines.append(line)
    return "\n".join(lines)


def site_link(match: re.Match[str], name: str) -> str:
    """Return one link of page `name`: to a page of the site, or the file's path as code."""
    target, anchor = match["target"], match["anchor"] or ""
    if not target or re.match(r"\w+:", target):
        return match[0]
    sources = added_pages()
    here = posixpath.dirname(sources.get(name) or f"docs/{name}")
    path = posixpath.normpath(posixpath.join(here, target))
    page = {source: added for added, source in sources.items()}.get(path)
    if code := CODE_PAGE.fullmatch(path):
        heading = (ROOT / path).read_text(encoding="utf-8").split(":")[0]  # "# JC1001 name: title"
        page, anchor = f"codes/{code[1][:4]}.md", "#" + heading[2:].lower().replace(" ", "-")
    elif path.startswith("docs/"):
        page = path.removeprefix("docs/")
    if page is None:
        return f"`{path}`" if (ROOT / path).exists() else match[0]  # MkDocs reports broken links
    return f"[{match['text']}]({posixpath.relpath(page, posixpath.dirname(name) or '.')}{anchor})"


def llms_lines(config: MkDocsConfig, nav: Navigation) -> Iterator[str]:
    """Yield the lines of llms.txt: a title, a summary, and one line for each page with its Markdown file."""
    yield f"# {config.site_name}"
    yield ""
    yield f"> {config.site_description}"
    listed: set[str] = set()
    for item in nav.items:
        yield from ("", f"## {item.title or config.site_name}", "")
        pages = list(pages_of(item))
        listed.update(page.file.src_uri for page in pages)
        yield from (llms_line(page.file.src_uri) for page in pages)
    yield from ("", "## Optional", "")
    yield from (llms_line(name) for name in sorted(_texts.keys() - listed))


def llms_line(name: str) -> str:
    title, text = _texts[name]
    return f"- [{title}]({PurePosixPath(name)}): {summary(text)}"


def pages_of(item: object) -> Iterator[Page]:
    if isinstance(item, Page):
        yield item
    elif isinstance(item, Section):
        for child in item.children:
            yield from pages_of(child)


def summary(text: str) -> str:
    """Return a page's first sentence, without links and emphasis."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    prose = next((p for p in paragraphs if not re.match(r"#|<!--|\||`{3}|-{3}|- ", p)), "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose).replace("**", "").replace("*", "")
    return re.split(r"(?<=[.:])\s(?=[A-Z`])", plain)[0].rstrip(":")
