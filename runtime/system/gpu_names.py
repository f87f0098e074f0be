"""Compare a GPU's product name with a type: for the type H100, a driver or label reports NVIDIA H100 80GB HBM3."""

from __future__ import annotations

import re


def is_gpu_of_type(name: str, wanted: str) -> bool:
    """Return whether a product name contains every part of a type: `NVIDIA A100-SXM4-80GB` contains A100 and 80GB.

    Letters and digits are separate words, and a part must end where a part of the name ends: A10 does not match A100,
    L4 and L40 do not match L40S, and RTX3090 matches `GeForce RTX 3090`.
    """
    name = re.sub(r"(MI\d{3})([_ ]OAM)", r"\1X\2", name)  # an MI325X reports itself as MI325 OAM, for example
    part_words = [_words(part) for part in _parts(name)]
    ends = [sum(map(len, part_words[: i + 1])) for i in range(len(part_words))]
    flat = [word for words in part_words for word in words]

    def contains_word(words: list[str]) -> bool:
        return any(flat[end - len(words) : end] == words for end in ends if end >= len(words))

    return all(contains_word(_words(part)) for part in _parts(wanted))


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r"[^A-Za-z0-9]+", text) if part]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+", text.lower())
