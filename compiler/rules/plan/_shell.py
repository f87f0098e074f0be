"""Parse the shell text in a user's command. Several rules use this.

The standard library's shlex is not sufficient, because it does not distinguish `;` from `';'`, and drops newlines and
comments. This parser handles nested `bash -c` texts, operators, quotes and comments. It skips here-documents, `$(…)`
and `<(…)`, and expands nothing. Rules that need to know whether a command is executed skip scripts that contain
compound commands, such as groups, loops, conditions and functions.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from ....runtime.system.frozen_dataclass import dataclass
from ._programs import SHELLS, program_name, strip_command_prefix

_HIDDEN = re.compile(r"""(?sx)
    \\. | \$'(?:\\.|[^'\\])*' | '[^']*' | "(?:\\.|[^"\\])*" | `[^`]*`  # quoted text, or text of another shell
    | (?:(?<=[\s;&|()])|^)\#[^\n]*  # a comment
""")
_HERE = re.compile(r"(?ms)(?<!<)<<-?[ \t]*(['\"]?)(?P<end>\w+)\1(?P<line>[^\n]*)\n(?P<body>.*?^\t*(?P=end)$)")
_OF_ANOTHER = re.compile(r"(?s)\$\(\(.*?\)\)|[$<>=]\([^()]*\)")  # $((1+2)), $(command), <(command), and a bash array
_BROKEN = re.compile(r"(?<!\S)\\[ \t\r]+(?:#[^\n]*)?\n")  # does not match `cut -d\ `, where the blank is part of a word
_PATTERN = re.compile(r"(?:(?<=\sin)|(?<=;;))\s+\(?[^()\s;]+(?:\s*\|\s*[^()\s;]+)*\)")  # of `case`
_JOIN = re.compile(r";;&?|;&?|\n|&&|\|\||\|&|(?<!>)\||(?<![&<>])&(?![&>])|\(\s*\)")
_WORD = re.compile(r"\(\(|[()]|[^\s()]+")
_COMPOUND = ("(", "((", "{", "if", "for", "while", "until", "case", "select", "function")


@dataclass(frozen=True)
class ShellCommand:
    """One command in a shell text, up to its separator: `;`, `|`, `&&` …, or "" at the end of the text."""

    typed: tuple[str, ...]  # words without quotes; a shell bracket is a word
    join: str

    @property
    def words(self) -> Sequence[str]:
        words = strip_command_prefix(self.typed)
        closed = next((index for index, word in enumerate(words) if index and word == ")"), None)
        return words[:closed]


def split_into_commands(text: str) -> list[ShellCommand]:
    plain, result, start = blank_quoted_text(text), list[ShellCommand](), 0
    for join in (*_JOIN.finditer(plain), None):
        end = join.start() if join else len(plain)
        typed = tuple(_unquote_word(text[slice(*word.span())]) for word in _WORD.finditer(plain, start, end))
        result.append(ShellCommand(typed, join[0] if join else ""))
        start = join.end() if join else end
    return result


def has_compound_commands(commands: Iterable[ShellCommand]) -> bool:
    """Return whether the text has a group, a loop, a condition or a function."""
    return any(
        command.join.startswith("(") or (command.typed[:1] and command.typed[0] in _COMPOUND) for command in commands
    )


def program_words_of_commands(command: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the program and arguments of the command, or of each command in its (nested) shell texts."""
    if text := shell_text(command):
        for inner_command in split_into_commands(text):
            yield from program_words_of_commands(inner_command.words)
    else:
        yield strip_command_prefix(command)


def shell_text(command: Sequence[str] | None) -> str:
    """Return the text after `bash -c`; "" for other commands. In `bash run.sh -c x`, -c belongs to the script."""
    words = strip_command_prefix(command or ())
    index = _shell_text_index(words)
    return words[index] if index else ""


def shell_options(command: Sequence[str] | None) -> Sequence[str]:
    """Return the options of the shell that runs shell_text(), such as `-ec` or `-o pipefail -c`."""
    words = strip_command_prefix(command or ())
    return words[1 : _shell_text_index(words)]


def _shell_text_index(words: Sequence[str]) -> int:
    """Return the index of the text that a shell runs, or 0. In `bash run.sh -c x`, -c belongs to the script."""
    if program_name(words) not in SHELLS:
        return 0
    index, reads_text = 1, False
    while index < len(words) and re.match("[-+].", words[index]):
        letters = "" if words[index].startswith("--") else words[index][1:]
        reads_text |= words[index].startswith("-") and "c" in letters
        has_value = "o" in letters or "O" in letters or words[index] in ("--rcfile", "--init-file")
        index += 2 if has_value else 1
    return index if reads_text and index < len(words) else 0


def find_broken_continuations(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each backslash that only blanks or a comment separate from the end of the line."""
    text = _blank_here_documents(text)
    matches = (_BROKEN.match(text, hidden.start()) for hidden in _HIDDEN.finditer(text))
    return [broken.span() for broken in matches if broken]


def is_command_in_one_word(command: Sequence[str] | None) -> bool:
    """Return whether the first word contains both a program and its arguments, because they were quoted together."""
    program_and_words = r"\S+\s+-|(python[\d.]*|bash|sh|torchrun|accelerate)\s|\S+\.(py|sh)\s"
    return any(re.match(program_and_words, word) for word in (command or ())[:1])


def add_shell_option(command: Sequence[str], *option: str) -> str:
    """Return the command with an additional option for its shell, as text for the command line."""
    index = len(command) - len(strip_command_prefix(command))
    shell = "bash" if "pipefail" in option and program_name(command[index:]) in ("sh", "dash") else command[index]
    return quote_for_bash([*command[:index], shell, *option, *command[index + 1 :]])  # dash 0.5.12 has no pipefail


def quote_for_bash(words: Iterable[str]) -> str:
    """Return the words as typed in bash. Newlines are written as `\\n`, which bash interprets only in $'…'."""

    def escape_character(character: str) -> str:
        """Return a character for $'…', as an escape that is valid in every locale if it is not printable."""
        if character.isprintable():
            return f"\\{character}" if character in "'\\" else character
        return (
            r"\n"
            if character == "\n"
            else "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogatepass"))
        )

    return " ".join(
        shlex.quote(word) if word.isprintable() else f"$'{''.join(map(escape_character, word))}'" for word in words
    )


def blank_quoted_text(text: str) -> str:
    """Blank out everything in the text that the shell does not interpret, without changing positions."""
    plain = _HIDDEN.sub(_blank_hidden, _blank_here_documents(text))
    while plain != (blanked := _OF_ANOTHER.sub(lambda match: match[0][0] + "_" * (len(match[0]) - 1), plain)):
        plain = blanked
    return _PATTERN.sub(lambda match: "\n" + " " * (len(match[0]) - 1), plain)


def _blank_here_documents(text: str) -> str:
    return _HERE.sub(
        lambda here: f"{'_' * (here.start('line') - here.start())}{here['line']}\n{' ' * len(here['body'])}", text
    )


def _blank_hidden(hidden: re.Match[str]) -> str:
    is_blank = hidden[0][0] == "#" or hidden[0] == "\\\n"
    return (" " if is_blank else "_") * len(hidden[0])


def _unquote_word(word: str) -> str:
    try:
        parts = shlex.split(word)
    except ValueError:
        return word
    return parts[0] if len(parts) == 1 else word
