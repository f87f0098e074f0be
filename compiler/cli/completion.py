"""Shell completion of commands, options, keys, groups and their options, the valid words for a key, and job names.

`jobc completion bash` prints a script that calls `jobc _complete` with the words before the cursor.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..plugins.registry import PACKAGE, find_plugins
from ..spec.job_spec import JobSpec
from ..spec.type_hints import accepted_words, dataclass_field_types, type_of_key, union_members
from .arguments import COMMANDS, Arguments, described_options, parse_arguments
from .find_artifacts import BY_NAME
from .reporting import OK
from .terminal import print_lines, print_text

_BASH = r"""# bash completion of jobc: eval "$(jobc completion bash)"
_jobc() {
  local line=${COMP_LINE:0:COMP_POINT} word reply
  word=${line##*[[:space:]]}
  mapfile -t COMPREPLY < <(jobc _complete "$line" 2>/dev/null)
  # bash splits words at `=` and `:`, and replaces only the last part
  if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
    for reply in "${!COMPREPLY[@]}"; do COMPREPLY[reply]=${COMPREPLY[reply]#*=}; done
  fi
}
complete -o default -o nospace -F _jobc jobc
"""


def completion_command(arguments: Arguments) -> int:
    if arguments.words != ("bash",):
        because = f"shell {arguments.words[0]} is not supported" if arguments.words else "missing shell name"
        title = "jobc completion supports only bash"
        raise CompileError([Diagnostic("JC1110", title, because, "jobc completion bash")])
    print_text(_BASH)
    return OK


def complete_command(arguments: Arguments) -> int:
    line = arguments.words[0] if arguments.words else ""
    if arguments.rest is None:
        print_lines(*complete_last_word(line))
    return OK


def complete_last_word(line: str) -> list[str]:
    """Return the completions of a command line's last word."""
    words = line.split(" ")
    word = words[-1]
    if "--" in words[:-1]:
        return []
    if word.startswith("-"):
        names = (name for names, _ in described_options() for name in names)
        return _matching_words(word, (f"{name} " for name in names if name.startswith("--")))
    if words[1:2] and words[1] in BY_NAME and len(words) > 2:
        return [] if "/" in word else _matching_words(word, (f"{name} " for name in _job_names()))
    operator = word[: len(word) - len(word.lstrip("+~"))]
    typed = word[len(operator) :]
    key, equals, value = typed.partition("=")
    if equals:
        return [f"{operator}{key}={matching}" for matching in _matching_words(value, _complete_values(key))]
    matching = _matching_words(typed, _complete_keys(typed))
    if not operator and len(words) == 2:
        matching += _matching_words(typed, (f"{name} " for name in COMMANDS if not name.startswith("_")))
    return [f"{operator}{candidate}" for candidate in matching]


def _matching_words(start: str, found: Iterable[str]) -> list[str]:
    return sorted({candidate for candidate in found if candidate.startswith(start)})


def _job_names() -> list[str]:
    """Return the names of the jobs in ./artifacts and ./runs."""
    folders = (entry for root in ("artifacts", "runs") for entry in Path(root).glob("[!.]*"))
    return [folder.name for folder in folders if folder.is_dir()]


def _complete_keys(typed: str) -> Iterable[str]:
    """Yield the keys one level below the prefix. A section ends in a dot (`optim.`), a leaf in an equals sign
    (`optim.lr=`).
    """
    section, _, _ = typed.rpartition(".")
    prefix = f"{section}." if section else ""
    if not section:
        yield from (f"{group}=" for group in find_group_options())
    for name, hint in _keys_in_section(section).items():
        below = _keys_in_section(f"{prefix}{name}")
        if below:
            yield f"{prefix}{name}."
        elif hint is not None:
            yield f"{prefix}{name}="


def _keys_in_section(section: str) -> dict[str, object]:
    """Return the keys directly in a section, including the keys of every variant of a union."""
    fields: dict[str, object] = {"backend": None} if not section else {}
    for variant in (variant for hint in _key_types(section) for variant in union_members(hint)):
        if isinstance(variant, type) and dataclasses.is_dataclass(variant):
            fields.update(dataclass_field_types(variant))
    return fields


def _key_types(key: str) -> list[object]:
    """Return a key's possible types. Below `backend`, these come from every backend that has such an option."""
    if key.split(".")[0] != "backend":
        return [type_of_key(JobSpec, key) if key else JobSpec]
    below = key.partition(".")[2]
    return [
        type_of_key(options, below) if below else options
        for options in map(_backend_options_class, find_plugins())
        if options
    ]


def _backend_options_class(name: str) -> type | None:
    """Return the Options class of a backend, or None if the backend cannot be imported."""
    try:
        return find_plugins()[name].load().Options
    except CompileError:
        return None


def _complete_values(key: str) -> Iterable[str]:
    yield from find_group_options().get(key, ())
    for hint in _key_types(key):
        yield from accepted_words(hint)


def find_group_options() -> dict[str, list[str]]:
    """Return group -> options over all config folders, including the user's."""
    roots = [path for _, path in parse_arguments(()).config_dirs]
    roots += [plugin.config_folder for plugin in find_plugins().values()] + [PACKAGE / "conf"]
    options: dict[str, list[str]] = {}
    for root in roots:
        for file in root.glob("*/**/*.yaml"):
            options.setdefault(file.parent.relative_to(root).as_posix(), []).append(file.stem)
    return options
