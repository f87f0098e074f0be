"""Arbitrary text in `env` and in the command: each rank receives exactly these bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .campaign import Campaign, Line, expect
from .job import STAND_IN, Job

BATCH = 200
PIECES = (
    *"aZ09 _-.,:;/=+*?!@#%^&|<>()[]{}~'\"`$\\",
    *"\t\n\r\v\f\x01\x1b\x7f\x80\x85\xa0\xad",
    *"é ß日本語🙂\u0301\u200b\u200d\u202e\u2028\u2029\ufeff\ufffd\ufffe",
    *"\ue000\ue001\uf8ff\U000f0000\U0010fffd\U0010ffff",  # private use, which a compiler might use for its own marks
    "$$", "$HOME", "${HOME}", "${name}", "${oc.env:HOME}", "$(id)", "{{ x }}", "{% x %}", "{# x #}", "${{x}}", "%(x)s",
    "%s", "\\n", "\\\\", "\\'", "'\\''", "--", "-n", "EOF", "null", "true", "0755", "1e3", "???", "&amp;", "#!", "\r\n",
    "  ",
)  # fmt: skip


def run(number: int, folder: Path) -> dict[str, Any]:
    chance = random.Random(number)
    texts = [one_text(chance) for _ in range(BATCH)]
    env = {f"TEXT_{index:03}": text for index, text in enumerate(texts)}
    overrides = ["launcher=spawn", *(f"env.{name}={quoted(text)}" for name, text in env.items())]
    with Job(folder, overrides, ["python3", str(STAND_IN), "record", *texts]) as job:
        job.submit()
        expect(
            job.code() == 0,
            f"jobctl submit exited with {job.code()}: {job.output()[-500:]}",
            num_texts=BATCH,
            arrived=0,
        )
        wrong: dict[str, str] = {}
        for rank in (0, 1):
            arguments = (job.marks / f"arguments.{rank}").read_bytes().split(b"\0")
            environment = dict(
                item.split(b"=", 1) for item in (job.marks / f"environment.{rank}").read_bytes().split(b"\0")
            )
            expect(len(arguments) == BATCH, f"{len(arguments)} arguments arrived", num_texts=BATCH, arrived=0)
            for (name, text), argument in zip(env.items(), arguments, strict=True):
                if not text.encode() == argument == environment.get(name.encode()):
                    wrong[name] = ascii(text)
    measured = {"num_texts": BATCH, "arrived": BATCH - len(wrong)}
    expect(not wrong, f"changed in transit: {', '.join(list(wrong.values())[:5])}", **measured)
    return measured


def one_text(chance: random.Random) -> str:
    text = "".join(chance.choices(PIECES, k=chance.choice((0, 1, 2, 3, 5, 8, 13, 21))))
    return text if text != "???" else ""


def quoted(text: str) -> str:
    """Return `text` quoted as a user would write it literally: in single quotes, with a backslash before ' and ${."""
    text = re.sub(r"(\\*)\$\{", lambda match: f"{match[1] * 2}\\${{", text)
    text = re.sub(r"(\\*)('|\Z)", lambda match: f"{match[1] * 2}{match[2] and chr(92) + match[2]}", text)
    return f"'{text}'"


def figure(lines: Sequence[Line]) -> str:
    arrived, total = (sum(line.get(key, 0) for line in lines) for key in ("arrived", "num_texts"))
    return f"{arrived:,} of {total:,} texts"


CAMPAIGN = Campaign(
    name="text",
    claim=(
        "Any text without NUL reaches every rank byte for byte, as an environment variable and as an argument. (The"
        " exception is `???`, with which Hydra marks a missing value; it is rejected.)"
    ),
    trial=(
        f"compiles and runs one job with {BATCH} texts, each both in `env` and in the command. Each text is a random"
        f" sequence of up to 21 pieces, drawn from {len(PIECES)} pieces that shells, YAML, Hydra, Jinja and torchrun"
        " treat specially: quotes, dollars, backslashes, line endings, control and private-use characters."
    ),
    count=50,
    run=run,
    figure=figure,
)
