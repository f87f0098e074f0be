"""Filter findings before they are reported: `# jobc: allow NAME because …` in a user's YAML, and --strict.

In:  the text of the files that a compile read, and the findings of one stage with their positions.
Out: the findings. Those that are allowed contain the reason. If an error remains, a CompileError with all of them.

A comment contains a code (JC3011) or its name (taken-port). It applies to the value on the same line, or to the value
on the next line if the comment has a line to itself. Several comments may share a line. The value is everything that
belongs to a key, even if it is a list or spans several lines. A finding about a mapping can be allowed at any of the
mapping's direct values. Warnings, notes and errors that are guesses (judgment) can be allowed. An error that would make
the artifact wrong cannot (JC3082).
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

import yaml

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.code_heading import NAME
from ..diagnostics.diagnostic import CompileError, Diagnostic, Severity, has_errors, join_with_or
from ..diagnostics.origin import Origin
from ..frontend.yaml_positions import value_lines
from ..frontend.yaml_reader import Loader
from ..plugins.registry import code_pages, codes_by_name

OF_SIZES = "JC21"  # codes that only jobc plan and jobc check report (estimate/rules/)
_COMMENT = re.compile(r"#\s*jobc\s*:(?:(?!#\s*jobc\s*:).)*", re.IGNORECASE)  # up to the next such comment on the line
_FORM = re.compile(rf"#\s*jobc:\s*allow\s+([A-Z]+\d+|{NAME})\s+because\s+(\S.*)")
_MEANT = re.compile(r"\b(allow|ignore|disable|suppress|skip|noqa|[A-Z]{2,}\d{2,})\b", re.IGNORECASE)
_EMPTY = re.compile(r"\s*(#.*)?$")
_EXAMPLE = "# jobc: allow ignored-by-backend because the queue sets its own limit"


@dataclass(frozen=True)
class AllowComment:
    """One `# jobc: allow` comment.

    word: the code or name as written.
    code: the code that this is or names, or "" if no code has that name.
    line: the line it applies to.
    lines: the lines of the values that are on that line.
    origin: the comment's position.
    """

    word: str
    code: str
    because: str
    line: int
    lines: frozenset[int]
    origin: Origin

    def allows_finding(self, found: Diagnostic) -> bool:
        position = found.origin
        if position is None or (position.root, position.path) != (self.origin.root, self.origin.path):
            return False
        return position.line in self.lines and found.code == self.code


@dataclass(frozen=True)
class SeverityFilter:
    """Sets the severity of findings. strict: warnings and notes become errors unless a comment allows them."""

    allowances: tuple[AllowComment, ...] = ()
    strict: bool = False

    def apply_severities(self, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        return [judged for diagnostic in found for judged in self._apply_allowance(diagnostic)]

    def finish_stage(
        self,
        found: Iterable[Diagnostic],
        earlier: Sequence[Diagnostic] = (),
        last: bool = True,
        failure: BaseException | None = None,
    ) -> list[Diagnostic]:
        """Return the findings of earlier stages and of this stage. Raises CompileError with all of them if one is an
        error.

        last: whether this is the last stage. In an earlier stage, findings that are errors only because of --strict
        raise nothing yet, so that later stages can report their errors in the same run.
        failure: exception that a check raised. It is re-raised only if no error is reported, because the check may have
        failed on a value that another check rejects.
        """
        found = list(found)
        judged = [*earlier, *self.apply_severities(found)]
        ends = last or has_errors(replace(self, strict=False).apply_severities(found))
        if ends and has_errors(judged):
            raise CompileError(judged)
        if failure is not None:
            raise failure
        return judged

    def _apply_allowance(self, found: Diagnostic) -> Iterator[Diagnostic]:
        allowance = next((candidate for candidate in self.allowances if candidate.allows_finding(found)), None)
        if allowance and (found.severity is not Severity.ERROR or found.judgment):
            yield replace(found, allowed=allowance.because)
            return
        yield replace(found, severity=Severity.ERROR) if self.strict else found
        if allowance:
            title, because = f"{found.code} cannot be allowed", "an artifact with this error would not work"
            if found.policy:
                because = f"policy {found.policy} forbids this setting, and a job cannot override a site policy"
            hint = found.hint or "fix the value and remove the comment"
            yield Diagnostic("JC3082", title, because, hint, allowance.origin, found.key)

    def find_unused_allowances(self, found: Iterable[Diagnostic], of_sizes: bool = False) -> list[Diagnostic]:
        """Return JC3081 for each comment that matched no finding of the compile or of `jobc plan`.

        JC3081 remains a note even with --strict, because another backend may need the comment.
        """
        found = list(found)
        allowances = [a for a in self.allowances if a.code.startswith(OF_SIZES) is of_sizes]
        return [
            _unused_allowance_diagnostic(a)
            for a in allowances
            if not any(a.allows_finding(d) for d in found if d.allowed)
        ]


def _unused_allowance_diagnostic(allowance: AllowComment) -> Diagnostic:
    title = f"the comment allows {allowance.word}, which is not reported here"
    because = f"no rule reports this diagnostic for line {allowance.line}, so the comment could hide a later mistake"
    hint = "remove the comment, or keep it if another backend reports the diagnostic"
    pages, names = code_pages(), codes_by_name()
    if len(codes := names.get(allowance.word, ())) > 1:
        because = f"{' and '.join(codes)} share this name, which selects {codes[0]}"
        hint = f"allow {join_with_or(codes[1:])} by code, or remove the comment"
    elif allowance.code not in pages:
        title = f"no diagnostic has the code or name {allowance.word}"
        because = "the comment has no effect on any backend"
        near = get_close_matches(allowance.word, [*pages, *names], 1)
        hint = f"did you mean {near[0]}? see jobc explain {near[0]}" if near else "remove the comment"
    return Diagnostic("JC3081", title, because, hint, allowance.origin, severity=Severity.NOTE)


def find_allow_comments(files: Mapping[str, str]) -> tuple[AllowComment, ...]:
    """Return the allow comments in all files (`ROOT:PATH` -> text). Raises CompileError JC3080 for invalid comments."""
    allowances: list[AllowComment] = []
    refused: list[Diagnostic] = []
    for location, text in files.items():
        if not _COMMENT.search(text):
            continue
        root, _, path = location.partition(":")
        lines, values = text.split("\n"), list(value_lines(text))
        for number, column, comment in _find_comments(text, lines):
            origin = Origin(root, path, number, column)
            if form := _FORM.fullmatch(comment):
                line = _value_line(lines, number)
                covered_lines = frozenset([line]).union(*({*value, above} for value, above in values if line in value))
                allowances.append(AllowComment(form[1], _resolve_code(form[1]), form[2], line, covered_lines, origin))
            elif _MEANT.search(comment):  # otherwise an ordinary comment
                because = "the form is `allow NAME because REASON`, where NAME is the name or code of a diagnostic"
                refused.append(Diagnostic("JC3080", "cannot read this `jobc:` comment", because, _EXAMPLE, origin))
    if refused:
        raise CompileError(refused)
    return tuple(allowances)


def _resolve_code(word: str) -> str:
    """Return the code that `word` is or names, or "" if there is none. If several codes match, jobc's own wins."""
    return word if word[0].isupper() else codes_by_name().get(word, ("",))[0]


def _find_comments(text: str, lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (line, column, text) for each comment, ignoring similar text inside a scalar."""
    tokens = [t for t in yaml.scan(text, Loader=Loader) if isinstance(t, yaml.ScalarToken)]
    blocks = [t.style in ("|", ">") for t in tokens]  # block scalars: their text begins on the next line
    starts = [(t.start_mark.line + b, t.start_mark.column * (not b)) for t, b in zip(tokens, blocks, strict=True)]
    ends = [(t.end_mark.line, t.end_mark.column) for t in tokens]
    for row, line in enumerate(lines):
        for match in _COMMENT.finditer(line):
            position = (row, match.start())
            before = bisect_right(starts, position)
            if not before or ends[before - 1] <= position:
                yield row + 1, match.start() + 1, match[0].rstrip()


def _value_line(lines: list[str], number: int) -> int:
    """Return the line, counted from 1, that the comment in line `number` applies to."""
    if not _EMPTY.match(lines[number - 1]):
        return number
    return next((n for n in range(number + 1, len(lines) + 1) if not _EMPTY.match(lines[n - 1])), number)
