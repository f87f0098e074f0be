"""A value's source position, `Origin`, and `TextWithOrigin`, a scalar that keeps its position while Hydra composes.

`TextWithOrigin` is used only in compose and convert. Later stages use typed values and look up origins by key.
"""

from dataclasses import replace
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass


@dataclass(frozen=True)
class Origin:
    """A position that a user can look up, either in a file below a known root or in a command-line word.

    root:   `jobc`, `plugin:NAME`, `user`, `project`, `input` (files) or `command line`.
    path:   the file's path relative to the root, with `/`. On the command line, the override as typed.
    line:   1-based, or 0 for a whole file or an override.
    column: 1-based, or 0 for a whole file. In an override, 1 means the key and 0 the value.
    """

    root: str
    path: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if self.root == COMMAND_LINE:
            return f"{self.root}: {self.path}"
        position = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.root}:{self.path}{position}"

    @property
    def is_user_file(self) -> bool:
        return self.root in USER_ROOTS

    @property
    def without_line(self) -> "Origin":
        """Return the position of the whole file, or of the override on the command line."""
        return replace(self, line=0, column=0)

    def position_of_key(self, key: str) -> "Origin":
        """Return the position of the key if this is an override of that key, or else this origin."""
        named = self.path.partition("=")[0].lstrip("+~")
        return replace(self, column=1) if self.root == COMMAND_LINE and f"{named}.".startswith(f"{key}.") else self


COMMAND_LINE = "command line"
USER_ROOTS = ("input", "project", "user")  # config folders of the user
AFTER_DASHES = "-- …"  # path of the words after ` -- `


def escape_to_one_line(text: str, keep: str = "") -> str:
    """Return the text on one line, with newlines and other unprintable characters as Python escapes.

    keep: characters that are not escaped.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


class TextWithOrigin(str):
    """The text of one YAML scalar exactly as written, with its origin.

    It is a `str` so that OmegaConf resolves interpolations in it. It is never copied, so merges keep the origin.
    null: whether the scalar was empty, `~` or `null` without quotes, so that it means "no value" and is not text.
    quoted: whether it was in quotes or a block. Only untyped trees use this (value_types.parse_untyped).
    """

    __slots__ = ("null", "origin", "quoted")
    origin: Origin
    null: bool
    quoted: bool

    def __new__(cls, text: str, origin: Origin, null: bool = False, quoted: bool = False) -> "TextWithOrigin":
        instance = super().__new__(cls, text)
        instance.origin = origin
        instance.null = null
        instance.quoted = quoted
        return instance

    def __copy__(self) -> "TextWithOrigin":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "TextWithOrigin":
        return self

    def __reduce__(self) -> "tuple[type[TextWithOrigin], tuple[str, Origin, bool, bool]]":
        return (TextWithOrigin, (str(self), self.origin, self.null, self.quoted))


def is_null(value: Any) -> bool:
    """Return whether a value is null: None from the command line, or a TextWithOrigin from a file."""
    return value is None or (isinstance(value, TextWithOrigin) and value.null)
