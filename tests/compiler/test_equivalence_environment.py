"""What bash says of its environment is read back as it is, whatever stands in a value."""

from __future__ import annotations

import random
import subprocess

import pytest

from jobc.compiler.equivalence.environment import environment

PIECES = (
    '"',
    "'",
    "\\",
    "$",
    "`",
    "\n",
    "\t",
    "\x01",
    "\x7f",
    "é",
    "𝄞",
    "a",
    " ",
    "=",
    "\x1b",
    "\r",
    "7",
    "\\n",
    "declare -x V1=",
)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("mode", ["", "set -o posix;"])
def test_every_value_is_read_as_it_is(locale: str, mode: str) -> None:
    chance = random.Random(f"{locale}{mode}")
    texts = ["".join(chance.choices(PIECES, k=chance.randint(0, 12))).encode() for _ in range(200)]
    texts += [bytes(chance.choices(range(1, 256), k=8)) for _ in range(100)]  # of which some are no UTF-8
    given = {b"LC_ALL": locale.encode(), **{f"V{number}".encode(): text for number, text in enumerate(texts)}}
    command = ["bash", "-c", f"{mode} unset V0; export V0; export -p"]  # V0: without a value, a command does not get it
    said = subprocess.run(command, env=given, capture_output=True, check=True).stdout
    read = environment(said.decode("utf-8", "surrogateescape"))
    found = {name: value.encode("utf-8", "surrogateescape") for name, value in read.items() if name.startswith("V")}
    assert found == {name.decode(): text for name, text in given.items() if name.startswith(b"V") and name != b"V0"}
