"""Diff two lists of lines in bounded time, because difflib takes hours for files with many equal lines."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

MOST_PAIRS = 300_000  # maximum number of pairs of equal lines that difflib compares in one pass

Opcode = tuple[str, int, int, int, int]


def diff_opcodes(a: Sequence[str], b: Sequence[str]) -> list[Opcode]:
    """Return difflib's opcodes. If too many lines repeat, all but the common beginning and end are replaced."""
    head = _common_prefix_length(a, b)
    tail = _common_prefix_length(a[head:][::-1], b[head:][::-1])
    middle_a, middle_b = a[head : len(a) - tail], b[head : len(b) - tail]
    counts, others = Counter(middle_a), Counter(middle_b)
    if sum(count * others[line] for line, count in counts.items()) > MOST_PAIRS:
        middle_opcodes: Sequence[Opcode] = [("replace", 0, len(middle_a), 0, len(middle_b))]
    else:
        middle_opcodes = SequenceMatcher(None, middle_a, middle_b, autojunk=False).get_opcodes()
    moved = [(kind, a1 + head, a2 + head, b1 + head, b2 + head) for kind, a1, a2, b1, b2 in middle_opcodes]
    ends = [("equal", 0, head, 0, head)], [("equal", len(a) - tail, len(a), len(b) - tail, len(b))]
    return [*(ends[0] if head else ()), *moved, *(ends[1] if tail else ())]


def _common_prefix_length(a: Sequence[str], b: Sequence[str]) -> int:
    return next((n for n, (left, right) in enumerate(zip(a, b, strict=False)) if left != right), min(len(a), len(b)))
