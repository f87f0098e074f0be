"""Find the variables that a job sets for its program, in `env` or in the shell text of its command.

In a command, these are `export NAME=value`, `NAME=value program` and `env NAME=value program`, up to and including the
last program that trains. Assignments in a condition, a group or a function are ignored, because they may be correct. So
are assignments that use the variable itself (`RANK=${RANK:-0}`).
"""

import re
from collections.abc import Iterator, Sequence

from ....runtime.system.frozen_dataclass import dataclass
from ...spec.job_spec import JobSpec
from ._programs import leading_assignments, program_name, starts_training
from ._shell import ShellCommand, shell_c_text, split_into_commands

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_EXPORTS = ("export", "declare", "typeset")
_OPEN, _CLOSE = ("if", "for", "while", "until", "case", "select", "{"), ("fi", "done", "esac", "}")
_TESTS = ("[", "[[", "((", "test", "grep", "command", "type")


@dataclass(frozen=True)
class UserVariable:
    name: str
    value: str
    key: str  # spec key that sets it

    @property
    def is_set_by_command(self) -> bool:
        return self.key == "command"

    @property
    def title(self) -> str:
        return f"{self.name} in the command" if self.is_set_by_command else self.key

    @property
    def is_literal(self) -> bool:
        """Return whether the program receives the value unchanged, without shell expansion."""
        return not (self.is_set_by_command and re.search(r"[$`]", self.value))

    def removal_hint(self, instead: str = "") -> str:
        """Return a hint to remove the variable. instead: assignment in `env` that replaces it"""
        if not self.is_set_by_command:
            return f"~{self.key}" + f" {instead}" * bool(instead)
        if instead:
            return f"in the command, replace {self.name} with {instead.removeprefix('env.')}"
        return f"in the command, remove {self.name}"


def user_variables(spec: JobSpec) -> Iterator[UserVariable]:
    """Yield the variables of `env`, then those of the command."""
    yield from (UserVariable(name, value, f"env.{name}") for name, value in spec.env.items())
    set_by_command = variables_set_by_command(spec.command or ())
    yield from (UserVariable(name, value, "command") for name, value in set_by_command.items())


def variables_set_by_command(command: Sequence[str]) -> dict[str, str]:
    assignments = _parse_assignments(leading_assignments(command))
    if text := shell_c_text(command):
        assignments |= _text_assignments(split_into_commands(text))
    return {name: value for name, value in assignments.items() if not re.search(rf"\$\{{?{name}\b", value)}


def _text_assignments(found: Sequence[ShellCommand]) -> dict[str, str]:
    training = [index for index, command in enumerate(found) if command.words and _may_train(command.words)]
    last = max(training, default=-1)
    result, depth = dict[str, str](), 0
    for index, command in enumerate(found[: last + 1]):
        before = found[index - 1] if index else None
        depth += sum(word in ("(", *_OPEN) for word in command.typed[:1])
        is_sure = depth == 0 and not (before and (before.join == "||" or _is_condition(before)))
        words = command.words
        if is_sure and program_name(words) in _EXPORTS and (words[0] == "export" or "-x" in words):
            result |= _parse_assignments(words[1:])
        elif index == last and is_sure:
            result |= _parse_assignments(leading_assignments(command.typed)) | variables_set_by_command(words)
        depth -= sum(word == ")" for word in command.typed) + sum(word in _CLOSE for word in command.typed[:1])
        depth = max(depth, 0)
    return result


def _may_train(words: Sequence[str]) -> bool:
    commands = [words, *(command.words for command in split_into_commands(shell_c_text(words)))]
    return words[0].startswith("./") or any(map(starts_training, commands))


def _is_condition(command: ShellCommand) -> bool:
    return command.join == "&&" and (program_name(command.words) in _TESTS or command.typed[:1] == ("!",))


def _parse_assignments(words: Sequence[str]) -> dict[str, str]:
    return {match[1]: match[2] for word in words if (match := _ASSIGNED.fullmatch(word))}
