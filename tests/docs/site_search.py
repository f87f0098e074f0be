"""Rank the documentation site's pages as a reader's browser does: index and query in, pages out, best first.

Material searches with lunr 2.3 in a web worker. This module has the same terms and the same BM25 score (k1 1.2, b 0),
but leaves out everything that cannot change the order. If node is installed, test_search.py also asks the worker.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

K1 = 1.2
STOP_TEXT = (
    "a able about across after all almost also am among an and any are as at be because been but by can cannot could "
    "dear did do does either else ever every for from get got had has have he her hers him his how however i if in "
    "into is it its just least let like likely may me might most must my neither no nor not of off often on only or "
    "other our own rather said say says she should since so some than that the their them then there these they this "
    "tis to too twas us wants was we were what when where which while who whom why will with would yet you your"
)
STOP_WORDS = frozenset(STOP_TEXT.split())


@dataclass
class Search:
    """A site's index, from search_index.json."""

    index: dict[str, Any]
    counts: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)  # term -> entry, field, occurrences

    def __post_init__(self) -> None:
        for number, entry in enumerate(self.index["docs"]):
            for name in ("title", "text"):
                words = Counter(word for word in self.words(entry[name]) if word not in STOP_WORDS)
                for word, count in words.items():
                    self.counts.setdefault(word, []).append((number, name, count))

    def words(self, text: str) -> list[str]:
        plain = re.sub(r"<[^>]*>", " ", text.lower())
        return [word for word in re.split(self.index["config"]["separator"], plain) if word]

    def pages(self, query: str) -> list[str]:
        """Return the site's pages, best first. Each word of the query may be the start of a longer word."""
        entries, terms = self.index["docs"], self.words(query)
        scores: Counter[int] = Counter()
        found: dict[int, set[str]] = {}
        for term in terms:
            for word, places in self.counts.items():
                if not word.startswith(term):
                    continue
                rarity = math.log(1 + abs((len(entries) - len(places) + 0.5) / (len(places) + 0.5)))
                for number, name, count in places:
                    boost = self.index["config"]["fields"][name]["boost"] * entries[number].get("boost", 1)
                    scores[number] += boost * rarity * (K1 + 1) * count / (K1 + count)
                    found.setdefault(number, set()).add(term)
        counted = {term for term in terms if term not in STOP_WORDS or any(term in words for words in found.values())}

        def score(number: int) -> float:
            is_page = "#" not in entries[number]["location"]
            share = len(found[number] & counted) / len(counted)
            return scores[number] * (1 + (is_page + share) ** 2)

        ranked = sorted(scores, key=score, reverse=True)
        return list(dict.fromkeys(entries[number]["location"].split("#")[0] for number in ranked))
