"""Is that GPU of this type? `gpu_type` is what people say, H100; a driver or a label says NVIDIA H100 80GB HBM3."""

from __future__ import annotations

import re


def is_of_type(name: str, wanted: str) -> bool:
    """Does a product's name have every part of a type, as A100-80GB matches `NVIDIA A100-SXM4-80GB`?

    Letters and digits are words of their own, and a part ends where a word of the name ends: A10 is not A100, L4 and
    L40 are no L40S, and RTX3090 is `GeForce RTX 3090`.
    """
    name = re.sub(r"(MI\d{3})([_ ]OAM)", r"\1X\2", name)  # MI325X and MI355X as their own memory names them: MI325 OAM
    part_words = [_words(part) for part in _parts(name)]
    ends = [sum(map(len, part_words[: i + 1])) for i in range(len(part_words))]
    flat = [word for words in part_words for word in words]

    def has(words: list[str]) -> bool:
        return any(flat[end - len(words) : end] == words for end in ends if end >= len(words))

    return all(has(_words(part)) for part in _parts(wanted))


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r"[^A-Za-z0-9]+", text) if part]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+", text.lower())
