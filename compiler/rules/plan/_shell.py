"""Parse the shell text in a user's command. Several rules use this.

The standard library's shlex is not sufficient, because it does not distinguish `;` from `';'`, and drops newlines and
comments. This parser handles nested `bash -c` texts, operators, groups, loops, `case`, quotes and comments. It does not
parse here-documents, `$(…)`, `<(…)`, the text of `eval` or script files. The body of a function is treated as if it ran
where it is defined, and nothing is expanded.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from ....runtime.system.frozen_dataclass import dataclass
from ._programs import program_name, split_env_string, strip_command_prefix

SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
_HIDDEN = re.compile(r"""(?sx)
    \\. | \$'(?:\\.|[^'\\])*' | '[^']*' | "(?:\\.|[^"\\])*" | `[^`]*`  # quoted text, or text of another shell
    | (?:(?<=[\s;&|()])|^)\#[^\n]*  # a comment
""")
_HERE = re.compile(r"""(?x)(?<!<)<<(?!<)(?P<tabs>-?)[ \t]*
    (?P<word>(?: '[^'\n]+' | "[^"\n]+" | \\. | [^\s;&|<>()'"\\] )+)""")  # the start of a here-document
_OF_ANOTHER = re.compile(r"(?s)\$\(\(.*?\)\)|[$<>=]\([^()]*\)")  # $((1+2)), $(command), <(command), and a bash array
_BROKEN = re.compile(r"(?<!\S)\\[ \t\r]+(?:#[^\n]*)?\n")  # does not match `cut -d\ `, where the blank is part of a word
_IN_BRACES = re.compile(r"\$\{[^}]*['\"]")  # quotes within quotes: `"${x:-"it's"}"`
_PATTERN = re.compile(r"(?:(?<=\sin)|(?<=;;))\s+\(?[^()\s;]+(?:\s*\|\s*[^()\s;]+)*\)")  # of `case`
_JOIN = re.compile(r";;&?|;&?|\n|&&|\|\||\|&|(?<!>)\||(?<![&<>])&(?![&>])|\(\s*\)")
_WORD = re.compile(r"\(\(|[()]|[^\s()]+")


@dataclass(frozen=True)
class ShellCommand:
    """One command in a shell text, up to its separator: `;`, `|`, `&&` …, or "" at the end of the text."""

    typed: tuple[str, ...]  # words without quotes; a shell bracket is a word
    join: str
    start: int
    end: int

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
        result.append(ShellCommand(typed, join[0] if join else "", start, end))
        start = join.end() if join else end
    return result


def program_words_of_commands(command: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the program and arguments of the command, or of each command in its (nested) shell texts."""
    if text := shell_c_text(command):
        for inner_command in split_into_commands(text):
            yield from program_words_of_commands(inner_command.words)
    else:
        yield strip_command_prefix(command)


def shell_c_text(command: Sequence[str] | None) -> str:
    """Return the text after `bash -c`, preceded by a `set …` line with the shell's options; "" for other commands."""
    words = strip_command_prefix(command or ())
    text = _shell_c_text_index(words)
    return f"set {' '.join(words[1:text])}\n{words[text]}" if text else ""


def bash_c_text(command: Sequence[str] | None) -> str:
    """Return the text after the `-c` of bash, sh or dash, without the shell's options. Return "" for other commands."""
    words = strip_command_prefix(command or ())
    text = _shell_c_text_index(words)
    return words[text] if text and program_name(words) in ("bash", "sh", "dash") else ""


def nested_bash_texts(command: Sequence[str] | None) -> Iterator[str]:
    """Yield a shell text and the texts of all nested `bash -c`."""
    if text := bash_c_text(command):
        yield text
        for inner_command in split_into_commands(text):
            yield from nested_bash_texts(inner_command.words)


def _shell_c_text_index(words: Sequence[str]) -> int:
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


def position_of_unclosed_quote(text: str) -> int | None:
    """Return the position of an unclosed quote, or None if there is none or nested text makes it impossible to tell."""
    if "$(" in text or "`" in text or _IN_BRACES.search(text):
        return None
    if any(kind == "body" and start == end for start, end, kind in _split_into_tokens(text)):
        return None
    return next((position for position, sign in enumerate(_blank_quotes(text)) if sign in "'\""), None)


def find_broken_continuations(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each backslash that is followed on its line only by blanks or a comment."""
    matches = (_BROKEN.match(text, start) for start, _, kind in _split_into_tokens(text) if kind == "hidden")
    return [broken.span() for broken in matches if broken]


def is_command_in_one_word(command: Sequence[str] | None) -> bool:
    """Return whether the first word contains both a program and its arguments, because they were quoted together."""
    program_and_words = r"\S+\s+-|(python[\d.]*|bash|sh|torchrun|accelerate)\s|\S+\.(py|sh)\s"
    return any(re.match(program_and_words, word) for word in (command or ())[:1])


def add_shell_option(command: Sequence[str], *option: str) -> str:
    """Return the command with an additional option for its shell, as text for the command line."""
    words = strip_command_prefix(command)
    if tuple(command[-len(words) :]) != tuple(words):
        command = split_env_string(command)
    index = len(command) - len(words)
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


def is_shell_option_set(option: str, words: Sequence[str], before: bool, letter: str = "-") -> bool:
    """Return whether a shell option is on after a command such as `set -e`, `set -euo pipefail` or `set +o errexit`."""
    for word, name in zip(words, (*words[1:], ""), strict=False) if list(words[:1]) == ["set"] else ():
        if re.fullmatch(r"[-+][A-Za-z]+", word) and (letter in word[1:] or (word[-1] == "o" and name == option)):
            before = word[0] == "-"
    return before


def blank_quoted_text(text: str) -> str:
    """Blank out everything in the text that the shell does not interpret, without changing positions."""
    plain = _blank_quotes(text)
    while plain != (blanked := _OF_ANOTHER.sub(lambda match: match[0][0] + "_" * (len(match[0]) - 1), plain)):
        plain = blanked
    return _PATTERN.sub(lambda match: "\n" + " " * (len(match[0]) - 1), plain)


def _blank_quotes(text: str) -> str:
    plain = ""
    for start, end, kind in _split_into_tokens(text):
        blank = " " if kind in ("comment", "body") or text[start:end] == "\\\n" else "_"
        plain += text[start:end] if kind == "sign" else blank * (end - start)
    return plain


def _split_into_tokens(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield a text's parts as (start, end, kind); kind `here` is the start of a here-document, `body` its text."""
    position, bodies = 0, list[re.Match[str]]()
    while position < len(text):
        start = position
        if match := _HIDDEN.match(text, position):
            position = match.end()
            yield start, position, "comment" if match[0][0] == "#" else "hidden"
        elif match := _HERE.match(text, position):
            bodies.append(match)
            position = match.end()
            yield start, position, "here"
        else:
            position += 1
            yield start, position, "sign"
            if text[start] == "\n" and bodies:
                end = _end_of_here_documents(bodies, text, position)
                yield position, end, "body"
                position, bodies = end, []


def _end_of_here_documents(bodies: Sequence[re.Match[str]], text: str, position: int) -> int:
    """Return where the here-documents of a line end. If they have no end, `<<` counts as a shift, as in `((1<<n))`."""
    for body in bodies:
        word = re.escape(re.sub(r"""['"\\]""", "", body["word"]))
        last = re.compile(rf"(?m)^{chr(92)}t*{word}$" if body["tabs"] else rf"(?m)^{word}$").search(text, position)
        position = last.end() if last else position
    return position


def _unquote_word(word: str) -> str:
    try:
        parts = shlex.split(word)
    except ValueError:
        return word
    return parts[0] if len(parts) == 1 else word
