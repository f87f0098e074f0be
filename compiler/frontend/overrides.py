"""Parse command-line overrides without changing the text that the user typed.

In:  the words on the command line.
Out: a list of `Override`. From its canonical form, Hydra parses exactly the text that the user typed.

Hydra 1.3's grammar determines what is a list, a mapping or an interpolation; numbers, words and flags remain text
(`24.10`, `0755`, `on`). If Hydra cannot parse a value and the value does not start with `[`, `{` or a quote, it is used
as typed (`node[1-4]`, `^lo`, `~/x`, `a=b`). Without -m, commas and function calls are also text, which the type of the
key interprets later. With -m, a comma outside quotes separates values, and a value that Hydra cannot parse is an error.
"""

import itertools
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..diagnostics.origin import COMMAND_LINE, Origin
from ..spec.job_spec import JobSpec
from ..spec.secret_scan import redact_override
from ..spec.type_hints import hint_value_type, type_of_key
from ..spec.value_types import parse_untyped
from .hydra_parser import parse_override_with_hydra

MOST_POINTS = 2_000  # maximum number of points in a sweep; Slurm's MaxArraySize is 1,001 unless a site raises it
MOST_WORDS = 2_000  # maximum number of words in one command line; each takes about a millisecond
MOST_MARKS = 4_000  # maximum number of `,`, `[`, `{`, … outside quotes; Hydra's parser takes a minute for 50,000
MOST_KEY = 500  # maximum number of characters in a key


@dataclass(frozen=True)
class Override:
    """One override.

    typed:     the word as the user typed it.
    operator:  "" to set, "+" to add, "++" to set or add, "~" to delete.
    key:       dotted key or group.
    package:   the package in `group@package`, or "" for none.
    canonical: the word that is passed to Hydra.
    """

    typed: str
    operator: str
    key: str
    package: str
    canonical: str

    @property
    def redacted_text(self) -> str:
        """Return the override in the form that messages quote, with secrets redacted."""
        return redact_override(self.typed)

    @property
    def origin(self) -> Origin:
        return Origin(COMMAND_LINE, self.redacted_text)

    @property
    def is_hydra_override(self) -> bool:
        """Return whether the override sets one of Hydra's own keys or chooses one of Hydra's own options."""
        return re.match(r"hydra([./@]|$)", self.key) is not None

    @property
    def keys(self) -> set[str]:
        """Return the keys that the override sets or removes. If the value is a mapping, return the keys inside it."""
        head, _, value = self.canonical.partition("=")
        mapping = parse_override_with_hydra(self.canonical, sweep=False)._value if value.startswith("{") else None
        return set(_leaf_keys(head.lstrip("+~"), mapping))


def parse_overrides(words: Iterable[str], open_keys: Sequence[str] = ()) -> list[Override]:
    """Return all overrides of one compile. Raises CompileError with JC1101 for every invalid word.

    open_keys: mappings that accept new keys without `+`, such as `env`.
    """
    return [choices[0] for choices in _parse_words(words, open_keys, sweep=False, loader=None)]


def parse_sweep(words: Iterable[str], open_keys: Sequence[str] = (), loader: Any = None) -> list[list[Override]]:
    """Return every combination of values in a -m command line. There is at least one. The last override varies fastest.

    loader: Hydra's config loader, required by `glob(…)` over a group.
    """
    choices = _parse_words(words, open_keys, sweep=True, loader=loader)
    if (count := math.prod(map(len, choices))) > MOST_POINTS:
        because, hint, code, title = _too_many_points_parts(count)
        raise CompileError([Diagnostic(code, title, because, hint)])
    return [list(point) for point in itertools.product(*choices)]


def override_for_key(key: str, value: str) -> Override:
    """Return an override that jobc sets itself."""
    return Override(f"{key}={value}", "", key, "", f"{key}={to_hydra(value)}")


def to_hydra(value: Any) -> str:
    """Return a value in Hydra's grammar, with text in quotes, so that Hydra parses it back unchanged.

    Text that would be a number or a boolean without the user's quotes gets double quotes; other text gets single
    quotes.
    """
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ",".join(to_hydra(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{to_hydra(v)}" for k, v in value.items()) + "}"
    return quote_for_hydra(_plain_text(value), double=is_quoted_number(value))


def is_quoted_number(value: Any) -> bool:
    """Return whether a value that Hydra parsed is a number or a boolean in quotes, such as `'01'` or `"true"`."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return isinstance(value, QuotedString) and value.quote == Quote.double and is_number(value.text)


def is_number(text: str) -> bool:
    """Return whether the text, if it is not in quotes, is a number or a boolean in an untyped tree."""
    return not isinstance(parse_untyped(text), str)


def strip_quotes_around_numbers(value: str) -> str:
    """Convert a value from the canonical form to what a user would type, without the single quotes around numbers."""
    return _SINGLE_QUOTED.sub(lambda quoted: quoted[1] if is_number(quoted[1]) else quoted[0], value)


def format_command_override(words: Iterable[str]) -> str:
    """Return the command as a user would type it: `command=[train.py,--lr,0.1]`."""
    typed = (word if re.fullmatch(r"[\w./${}-]+", word) else quote_for_hydra(word, double=True) for word in words)
    return f"command=[{','.join(typed)}]"


def quote_for_hydra(text: str, double: bool = False) -> str:
    from hydra.core.override_parser.types import Quote, QuotedString

    return str(QuotedString(text, Quote.double if double else Quote.single).with_quotes())


def _parse_words(words: Iterable[str], open_keys: Sequence[str], sweep: bool, loader: Any) -> list[list[Override]]:
    readings, refused, words = [], [], list(words)
    _check_size(words, sweep)
    for word in words:
        try:
            readings.append(_parse_override(word, open_keys, sweep, loader))
        except _InvalidOverride as error:
            because, hint, *code_and_title = error.args
            code, title = code_and_title or ("JC1101", f"cannot read the override {word!r}")
            if (text := redact_override(word)) != word:
                title, hint = f"cannot read the override {text}", "secrets.NAME=env:NAME"
            refused.append(Diagnostic(code, title, because, hint, Origin(COMMAND_LINE, text)))
    if refused:
        raise CompileError(refused)
    return readings


def _check_size(words: Sequence[str], sweep: bool) -> None:
    """Raise CompileError JC1116 for a command line that Hydra's parser (ANTLR, in Python) needs minutes to parse."""
    hint = "put the values into a config file: +experiment=NAME reads experiment/NAME.yaml"
    if len(words) > MOST_WORDS:
        title, because = f"too many overrides: {len(words):,}", f"a command line can have at most {MOST_WORDS:,}"
        raise CompileError([Diagnostic("JC1116", title, because, hint)])
    remaining = MOST_MARKS
    for word in words:
        value = word.partition("=")[2]
        if sweep or value.strip(" \t")[:1] in _OPENING:
            remaining -= len(_MARK.findall(_mask_quoted(value)))
        if remaining < 0:
            because = f"the overrides have more than {MOST_MARKS:,} commas, brackets and colons outside quotes"
            origin = Origin(COMMAND_LINE, redact_override(word))
            raise CompileError([Diagnostic("JC1116", "this override is too long", because, hint, origin)])


class _InvalidOverride(Exception):
    """Raised for an invalid override. args: because, hint and, for codes other than JC1101, code and title."""


def _parse_override(word: str, open_keys: Sequence[str], sweep: bool, loader: Any) -> list[Override]:
    operator = "~" if word.startswith("~") else word[: len(word[:2]) - len(word[:2].lstrip("+"))]
    head, equals, right = word[len(operator) :].partition("=")
    try:
        word.encode()
    except UnicodeEncodeError:
        raise _InvalidOverride("the override is not valid UTF-8", "enter the value in UTF-8") from None
    key, package = _parse_head(head)
    sets_mapping = key in open_keys and right[:1] == "{"
    if not operator and (sets_mapping or any(key.startswith(f"{prefix}.") for prefix in open_keys)):
        operator = "++"

    def make_override(value: str | None) -> Override:
        target = key if not package else f"{key}@{package}"
        return Override(word, operator, key, package, f"{operator}{target}" + ("" if value is None else f"={value}"))

    if operator == "~" and not equals:
        return [make_override(None)]
    if not equals:
        raise _InvalidOverride("the override has no `=`", f"{word}=VALUE")
    return [make_override(value) for value in _canonical_values(f"{operator}{head}={right}", right, sweep, loader)]


def _parse_head(text: str) -> tuple[str, str]:
    """Return (key or group, package) from the text before the `=`."""
    if len(text) > MOST_KEY:
        raise _InvalidOverride(f"the key has more than {MOST_KEY} characters", "nodes=2")
    if _PLAIN_KEY.fullmatch(text):
        return text, ""
    head = parse_override_with_hydra(f"{text}=x", sweep=False) if text else None
    if head is None:
        hint = "nodes=2; for a key with other characters: 'labels={a.b/c: value}'"
        if _PLAIN_KEY.fullmatch(text.strip()):
            hint = f"{text.strip()}=VALUE, without a space before ="
        raise _InvalidOverride("an override must be key=value, +key=value, ++key=value, ~key or group=option", hint)
    return head.key_or_group, head.package or ""


def _canonical_values(word: str, right: str, sweep: bool, loader: Any) -> list[str]:
    """Return the canonical values. Without -m, there is only one; with -m, all values of the sweep."""
    opens = right.strip(" \t")[:1]
    if _PLAIN_VALUE.fullmatch(right):
        return [_quote_text(right)]
    if right == "~":  # null, as in YAML
        return ["null"]
    if not sweep and opens not in _OPENING and right.lower() != "null":
        return [_quote_text(right)]
    has_spaces = right != right.strip(" \t") and opens not in _OPENING
    parsed = None if has_spaces else parse_override_with_hydra(word, sweep)
    if parsed is None:
        key = word.partition("=")[0].removeprefix("++")
        as_text = shlex.quote(f"{key}={quote_for_hydra(right, double=True)}")
        if sweep and opens not in ("[", "{") and _BARE_COMMA.search(_mask_quoted(right)):
            because = "in a sweep, commas separate values unless they are in quotes"
            raise _InvalidOverride(
                because, " or ".join([*_quote_each_value(key, right), f"{as_text}, if it is a single string"])
            )
        if opens in _OPENING:
            because = f"{opens} starts {_OPENING[opens]}, and Hydra cannot parse the rest"
            if (closed := _closed(right)) != right and parse_override_with_hydra(f"{key}={closed}", sweep):
                because = f"{opens} starts {_OPENING[opens]}, which is not closed"
                if hint_value_type(type_of_key(JobSpec, key)):
                    raise _InvalidOverride(because, f"{as_text}, because the value of {key} is text")
                raise _InvalidOverride(because, f"{shlex.quote(f'{key}={closed}')} or {as_text}, if it is text")
            raise _InvalidOverride(because, " or ".join([*_quoted_items(key, right), f"{as_text}, if it is text"]))
        return [_quote_text(right)]
    if parsed.is_sweep_override():
        key = word.partition("=")[0]
        points = _sweep_values(parsed, key.removeprefix("++"), right, loader)
        return [_canonical_values(f"{key}={value}", value, sweep=False, loader=None)[0] for value in points]
    if opens not in _OPENING and parsed._value is not None and not (sweep and "\\," in right):
        return [_quote_text(right)]  # keep the text: Hydra would reduce \\ and \, to one character
    for leaf in _texts_in(parsed._value):
        _quote_text(leaf)
    return [to_hydra(parsed._value)]


def _mask_quoted(right: str) -> str:
    """Return the value with each quoted character replaced by `_`. Quoted text can only start where a value starts."""
    return _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), right)


def _closed(right: str) -> str:
    """Return the value with the brackets added that are missing at its end."""
    missing = ""
    for letter in _mask_quoted(right):
        if letter in _CLOSING:
            missing = _CLOSING[letter] + missing
        elif letter == missing[:1]:
            missing = missing[1:]
    return right + missing


def _quoted_items(key: str, right: str) -> list[str]:
    """Return the word with each item of its list or mapping in quotes. Return [] if the value is not a plain one.

    A list without a comma has one item, such as a command that contains quotes.
    """
    if re.fullmatch(r"""\[(?:[^\[\]{}"']|\$\{[^{}]*\})+\]""", right):
        items = [item.strip(" \t") for item in right[1:-1].split(",")]
    elif re.fullmatch(r"\[[^,\[\]{}]+\]", right):
        items = [right[1:-1].strip(" \t")]
    elif re.fullmatch(r"""\{[^\[\]{}"',:]+:[^\[\]{}"',]+(,[^\[\]{}"',:]+:[^\[\]{}"',]+)*\}""", right):
        pairs = (item.partition(":") for item in right[1:-1].split(","))
        items = [f"{name.strip()}: {quote_for_hydra(value.strip(), double=True)}" for name, _, value in pairs]
        return [shlex.quote(f"{key}={{{', '.join(items)}}}")]
    else:
        return []
    return [shlex.quote(f"{key}=[{','.join(quote_for_hydra(item, double=True) for item in items)}]")]


def _quote_each_value(key: str, right: str) -> list[str]:
    """Return the word with each value of the sweep in quotes, or [] if commas do not separate values (`node[1,3]`)."""
    right = re.sub(r"choice\((.*)\)", r"\1", right.strip(" \t"))
    values, start, depth = [], 0, 0
    bare = _mask_quoted(right)
    for index, letter in enumerate([*bare, ","]):
        depth += (letter in "([{") - (letter in ")]}")
        if index == len(bare) or (letter == "," and not depth and bare[index - 1 : index] != "\\"):
            values.append(right[start:index].strip(" \t"))
            start = index + 1
    if len(values) == 1 or not all(values):
        return []
    quoted = (value if _QUOTED.fullmatch(value) else quote_for_hydra(value, double=True) for value in values)
    return [shlex.quote(f"{key}={','.join(quoted)}")]


def _sweep_values(parsed: Any, key: str, right: str, loader: Any) -> list[str]:
    from hydra.core.override_parser.types import Glob, IntervalSweep, RangeSweep

    swept = parsed._value
    if isinstance(swept, IntervalSweep):
        raise _InvalidOverride("an interval is not a list of values", f"{key}=range(0,1,0.25)")
    if isinstance(swept, RangeSweep):
        _check_range(swept, key)
    if isinstance(swept, Glob):  # Hydra compares the patterns with names, so they must not be quoted
        swept = replace(swept, include=[*map(_plain_text, swept.include)], exclude=[*map(_plain_text, swept.exclude)])
    parsed._value, parsed.config_loader = swept, loader
    points = [strip_quotes_around_numbers(str(value)) for value in parsed.sweep_string_iterator()]
    if isinstance(swept, Glob) and not points:
        options = loader.get_group_options(parsed.key_or_group) if loader else []
        because = f"no option in group {key} matches" if options else f"{key} is not a group, so it has no options"
        raise _InvalidOverride(
            because, f"{key}={','.join(options[:2])}" if options else f"{key}=…,… with explicit values"
        )
    return points


def _check_range(swept: Any, key: str) -> None:
    """Raise _InvalidOverride for an empty or infinite range, or for one larger than a sweep may be.

    swept: a RangeSweep.
    """
    start, stop, step = numbers = (swept.start, swept.stop, swept.step)
    if not all(isinstance(number, int) or math.isfinite(number) for number in numbers):
        raise _InvalidOverride("a range must go from one number to another", f"{key}=range(0,1,0.25)")
    towards = abs(step or 1) if start < stop else -abs(step or 1)
    hint = f"{key}={start}" if start == stop else f"{key}=range({start},{stop},{towards})"
    if not step:
        raise _InvalidOverride("a range with step 0 never ends", hint)
    if start == stop or towards != step:
        raise _InvalidOverride("the range is empty, because the end is excluded", hint)
    if (count := math.ceil((Fraction(stop) - Fraction(start)) / Fraction(step))) > MOST_POINTS:
        first = f"{key}=range({start},{start + 100 * step},{step})"
        raise _InvalidOverride(*_too_many_points_parts(count, f"{first}, and the other values in separate calls"))


def _too_many_points_parts(count: int, hint: str = "split the sweep into several calls") -> tuple[str, str, str, str]:
    """Return (because, hint, code, title) for JC1113."""
    shown = f"{count:,}" if count < 10**9 else "a billion or more"
    because = f"one command compiles at most {MOST_POINTS:,} points, because each point takes about 1 MB of memory"
    return because, hint, "JC1113", f"a sweep of {shown} points"


# Text that Hydra's grammar leaves unchanged. Most overrides are like this, and skipping the parser saves milliseconds.
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*((\.[A-Za-z_]\w*)*|(/[A-Za-z_]\w*)*)", re.ASCII)
_PLAIN_VALUE = re.compile(r"(?!(?i:null)$)[\w.:/-]+", re.ASCII)
_MARK = re.compile(r"[,:\[\]{}()]")
_BARE_COMMA = re.compile(r"(?<!\\),")
_QUOTED = re.compile(r"""(?:(?<=[,(\[{:\s])|^)(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")""")
_SINGLE_QUOTED = re.compile(r"(?:(?<=[=,:\[{])|^)'([-+.\w]+)'(?=[,\]}]|$)", re.ASCII)
_CLOSING = {"[": "]", "{": "}"}
_OPENING = {"[": "a list", "{": "a mapping", "'": "quoted text", '"': "quoted text"}


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(inner)
    elif value is not None:
        yield _plain_text(value)


def _plain_text(value: Any) -> str:
    return str(getattr(value, "text", value))


def _leaf_keys(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaf_keys(f"{key}.{name}", inner)
    else:
        yield key


def _quote_text(text: str) -> str:
    """Return the text quoted. Raises _InvalidOverride for text that OmegaConf would later drop or fail to parse."""
    if text == "???":
        because = "??? marks a value to be set later, and is ignored if the key already has a value"
        raise _InvalidOverride(because, "null, or remove the key", "JC1008", "??? is not a value")
    if "${" in text:
        from omegaconf.errors import GrammarParseError
        from omegaconf.grammar_parser import parse

        try:
            parse(text)
        except GrammarParseError:
            title = f"cannot read the interpolation in {text!r}"
            because = "`${` starts an interpolation such as ${name}"
            raise _InvalidOverride(because, "write shell text as \\${HOME}", "JC1007", title) from None
    return quote_for_hydra(text)
