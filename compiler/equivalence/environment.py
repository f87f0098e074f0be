"""The environment as `export -p` of bash prints it: `declare -x NAME="value"`, `declare -x NAME=$'value'`.

In   what it printed: bash 3.2 to 5.3, in POSIX mode or not, in any locale
Out  name -> value of all that a command gets; what is exported without a value, it does not get
"""

from __future__ import annotations

import re

_EXPORTED = re.compile(
    r"""^(?:declare -\w+|export) (\w+)=(?:"((?:[^"\\]|\\.)*)"|\$'((?:[^'\\]|\\.)*)')$""", re.MULTILINE | re.DOTALL
)
_ESCAPED = re.compile(r"\\(?:([0-7]{1,3})|(.))", re.DOTALL)
_SIGNS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_BYTE = 0xDC00  # with a byte above 0x7f it is how Python's surrogateescape has that byte


def environment(printed: str) -> dict[str, str]:
    """printed, and the values: bytes that are no UTF-8 as surrogates."""
    return {name: _of_signs(signs) if signs else _of_plain(plain) for name, plain, signs in _EXPORTED.findall(printed)}


def _of_plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _of_signs(text: str) -> str:
    r"""What stands in $'…': \n and its like, and other bytes in octal, each by itself."""
    text = _ESCAPED.sub(lambda m: chr(_BYTE + int(m[1], 8)) if m[1] else _SIGNS.get(m[2], m[2]), text)
    return re.sub("[\udc00-\udcff]+", _together, text)


def _together(found: re.Match[str]) -> str:
    return bytes(ord(sign) - _BYTE for sign in found[0]).decode("utf-8", "surrogateescape")
