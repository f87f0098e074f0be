"""The search of the site leads to the page: for words of the field, and for questions that people ask in public."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TypedDict

import pytest
import yaml

from .site_search import Search

pytestmark = pytest.mark.xdist_group("site")  # built once
HERE = Path(__file__).parent
WORDS: dict[str, str] = yaml.safe_load((HERE / "search_words.yaml").read_text(encoding="utf-8"))
WORKER = "assets/javascripts/workers/search.*.js"
ASK_WORKER = """\
const fs = require("fs"), vm = require("vm");
const [worker, index, queries] = process.argv.slice(1);
let hear, reply;
globalThis.self = globalThis;
globalThis.addEventListener = (type, listener) => { if (type === "message") hear = data => listener({data}); };
globalThis.postMessage = message => { reply = message; };
vm.runInThisContext(fs.readFileSync(worker, "utf8"));
(async () => {
  await hear({type: 0, data: {...JSON.parse(fs.readFileSync(index)), options: {}}});
  const pages = {};
  for (const query of JSON.parse(queries)) {
    await hear({type: 2, data: query});
    pages[query] = reply.data.items.map(group => group[0].location.split("#")[0]);
  }
  console.log(JSON.stringify(pages));
})();
"""


@pytest.fixture(scope="module")
def search(site: Path) -> Search:
    return Search(json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8")))


def test_there_are_forty_words() -> None:
    assert len(WORDS) >= 40


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_field_leads_to_its_page(search: Search, word: str) -> None:
    assert f"{WORDS[word]}.html" in search.pages(word)[:2]


@pytest.mark.skipif(not shutil.which("node"), reason="no node to run the search of the theme")
def test_the_search_of_the_theme_leads_to_the_same_pages(site: Path) -> None:
    (worker,) = site.glob(WORKER)
    index = site / "search" / "search_index.json"
    command = ["node", "-e", ASK_WORKER, str(worker), str(index), json.dumps([*WORDS])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert [word for word, page in WORDS.items() if f"{page}.html" not in found[word][:2]] == []


class Question(TypedDict):
    ask: str
    thread: str
    search: str
    pages: list[str]
    answer: list[str]


QUESTIONS: list[Question] = yaml.safe_load((HERE / "questions.yaml").read_text(encoding="utf-8"))


def test_there_are_twenty_questions_from_as_many_threads() -> None:
    assert len({question["thread"] for question in QUESTIONS}) == len(QUESTIONS) >= 20


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["search"])
def test_a_question_is_answered_on_one_or_two_pages(site: Path, search: Search, question: Question) -> None:
    first, *second = question["pages"]
    assert f"{first}.html" in search.pages(question["search"])[:2]
    texts = [(site / f"{page}.md").read_text(encoding="utf-8") for page in question["pages"]]
    assert len(second) <= 1 and all(re.search(rf"\((?:\.\./)*{page}\.md", texts[0]) for page in second)
    assert [answer for answer in question["answer"] if not any(answer in _in_one_line(text) for text in texts)] == []


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
