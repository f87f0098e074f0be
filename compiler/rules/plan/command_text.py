"""The words of the command and of its shell text: JC3003, JC3010, JC3013 to JC3016."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan import derive
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.secret_scan import describe_secret_in_command, looks_like_token
from ._shell import (
    blank_quoted_text,
    find_broken_continuations,
    is_command_in_one_word,
    nested_bash_texts,
    position_of_unclosed_quote,
    quote_for_bash,
    shell_c_text,
)


def check_secret(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3003: a password or token in the command or in a label, where all users of a node can read it."""
    in_shell = re.sub("[\"']", "", shell_c_text(spec.command)).split()
    if shown := describe_secret_in_command((*(spec.command or ()), *in_shell)):
        title = f"the command contains {shown}"
        because = "`ps` shows the arguments to all users of the node, and launch.sh contains them in plain text"
        hint = "secrets.NAME=env:NAME, and read the environment variable in the program"
        yield Diagnostic("JC3003", title, because, hint, key="command", private=True, judgment=True)
    for name, value in spec.labels.items():
        if looks_like_token(value):
            because = "everyone who can list jobs can read labels"
            hint = f"~labels.{name}; pass a secret with secrets.NAME=env:NAME"
            title, key = f"labels.{name} looks like a secret", f"labels.{name}"
            yield Diagnostic("JC3003", title, because, hint, key=key, private=True, judgment=True)


def check_command_in_one_word(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3010: quotes around the whole command, which make it one word that would be taken for a file name."""
    if spec.command and is_command_in_one_word(spec.command):
        because = "no shell splits this argument, so the whole text would be taken as the program's name"
        text = " ".join(spec.command)
        in_shell = " ".join(derive.rank_command(replace(spec, command=tuple(text.split(" ")))))
        hint = f"-- {quote_for_bash(['bash', '-c', in_shell])}"
        if position_of_unclosed_quote(text) is not None:  # no shell can read it
            hint = f"-- {quote_for_bash(text.split())}"
        elif not re.search(r"[^\w ./:=,@%+'\"-]", blank_quoted_text(text)) and "\\" not in text:  # needs no shell
            hint = f"-- {text}; or, for a shell, {hint}"
        title = f"the command is one argument with spaces: {spec.command[0]!r}"
        yield Diagnostic("JC3010", title, because, hint, key="command", judgment=True)


def check_open_quote(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3013: `bash -c 'python train.py --note "abc'`: an unclosed quote in a shell's text."""
    results = ((text, position_of_unclosed_quote(text)) for text in nested_bash_texts(spec.command))
    text, position = next((result for result in results if result[1] is not None), ("", None))
    if position is not None:
        line = text[position:].split("\n", 1)[0]
        title = f"unclosed quote: `{line[:40]}{'…' if len(line) > 40 else ''}`"
        because = "the shell finds no closing quote before the end of the text, and runs nothing"
        hint = "close the quote, or escape it with a backslash"
        yield Diagnostic("JC3013", title, because, hint, key="command", judgment=True)


def check_broken_continuation(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3014: `train.py \\ # all GPUs` in a shell's text: a backslash before a blank does not continue the line."""
    results = ((text, find_broken_continuations(text)) for text in nested_bash_texts(spec.command))
    text, broken = next((result for result in results if result[1]), ("", []))
    if not broken:
        return
    start, end = broken[0]
    next_line = text[end:].split("\n", 1)[0].strip()
    title = f"the command ends before `{next_line}`, which is on the next line"
    if not next_line:
        title = "the command ends with a blank argument"
    because = f"`{text[start:end].strip()}`: a backslash continues a line only as its last character"
    mended = text
    for start, end in reversed(broken):
        mended = f"{mended[:start]}\\\n{mended[end:]}"
    words = [mended if word == text else word for word in spec.command or ()]
    hint = f"-- {quote_for_bash(words)}" if mended in words else "remove the whitespace after the backslash"
    yield Diagnostic("JC3014", title, because, hint, key="command", judgment=True)


_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OPERATORS = ("&&", "||", ";", "|", "&")
_BUILTINS = ("cd", "source", ".", "export", "set", "ulimit", "umask", "unset", "eval", "exec", "alias")


def check_shell_syntax(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3015: a command that only a shell can run, such as `X=1 python train.py` or `cd src && python train.py`."""
    words = spec.command or ()
    because = "the command runs without a shell, so this word would be taken as the program's name"
    if assignment := _ASSIGNMENT.fullmatch(words[0]) if words else None:
        rest = next((i for i, word in enumerate(words) if not _ASSIGNMENT.fullmatch(word)), len(words))
        variables = [f"env.{word}" for word in words[:rest]]
        hint = f"{quote_for_bash(variables)} -- {quote_for_bash(words[rest:])}"
        yield _shell_error_diagnostic(f"the command begins with an assignment: {assignment[0]!r}", because, hint)
    elif words[:1] and words[0] in _BUILTINS:
        yield _shell_error_diagnostic(
            f"{words[0]} is not a program but a command of the shell", because, _wrap_in_shell(words)
        )
    elif operator := next((word for word in words if word in _OPERATORS), ""):
        because = "the command runs without a shell, so this word would be an argument of the program"
        title = f"the command contains the word {operator!r}"
        yield Diagnostic("JC3015", title, because, _wrap_in_shell(words), key="command", severity=Severity.WARNING)


def _shell_error_diagnostic(title: str, because: str, hint: str) -> Diagnostic:
    return Diagnostic("JC3015", title, because, hint, key="command", judgment=True)


def _wrap_in_shell(words: Sequence[str]) -> str:
    text = " ".join(word if word in _OPERATORS else quote_for_bash([word]) for word in words)
    return f"-- {quote_for_bash(['bash', '-c', text])}"


def check_outside_code(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3016: an argument such as `../data`, which is outside the copy of the code that the ranks run in."""
    if plan.code.kind not in ("snapshot", "git", "rsync"):
        return
    for word in spec.command or ():
        path = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        if path.split("/")[0] == ".." or posixpath.normpath(path).startswith("../"):
            title = f"the command contains {path!r}, which is not in the copied folder"
            because = "the ranks run in a copy of your folder, and its parent folder is not copied"
            hint = "pass an absolute path, or run jobc in the folder that contains this path and your script"
            yield Diagnostic("JC3016", title, because, hint, key="command", severity=Severity.WARNING)
            return
