"""Hostile text for every text key of a job, and a check that it remains text in the artifact's files.

In:  a backend's options, from which command lines are built, and an artifact that was compiled from one of these.
Out: the places where text broke out of its quotes, its comment or its line.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

import yaml

from ..emit.artifact import PROGRAM, Artifact
from ..emit.shell_context import ShellContextScanner
from ..frontend.overrides import to_hydra
from ..spec.job_spec import JobSpec
from ..spec.type_hints import spec_keys, type_of_key

MARK = "zqx"  # marker in each part of hostile text that could take effect
LINES = f"a\n#PBS -W {MARK}\n#SBATCH --{MARK}\n{MARK}=1\n- {MARK}: 1"
INLINE = f"""-o{MARK} it's "$({MARK})" `{MARK}` ${{{MARK}}} %{MARK} ]] ; {MARK} # {MARK}"""
TEXTS = (LINES, INLINE)
_COMPANIONS = {  # keys that reach a file only together with another override
    "python.path": "python.kind=venv",
    "python.modules": "python.kind=modules",
    "container.workdir": "image=x",
    "container.options": "image=x",
    "backend.image": "image=x",
}
CODE = ("setup", "before", "per_node", "then", "after")  # keys whose text is meant to run
_BEYOND_TYPES = (  # overrides of keys whose type is a mapping or a section
    "env.{mark}={text}",
    "secrets.{mark}=file:{text}",
    "labels={{{text}: a}}",
    "labels.a={text}",
    "mounts=[{{source: {text}, target: /a}}]",
    "mounts=[{{source: /a, target: {text}}}]",
    "network.settings=[{{name: A, value: {text}, reason: {text}}}]",
    "accelerate.extra={{{text}: {text}}}",
)

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster if PyYAML has libyaml


def hostile_overrides(options: type) -> Iterator[tuple[str, ...]]:
    """Yield command lines that set each of the job's keys, and each of a backend's options, to each text."""
    keys = [(key, type_of_key(JobSpec, key)) for key in spec_keys(JobSpec) if key not in CODE]
    keys += [(key, type_of_key(options, key.removeprefix("backend."))) for key in spec_keys(options, "backend")]
    forms = [form for key, hint in keys for form in _text_forms(key, hint)]
    for text in TEXTS:
        for form, companion in [*forms, *((form, "") for form in _BEYOND_TYPES)]:
            yield (form.format(text=quote_as_override_value(text), mark=MARK.upper()), *filter(None, [companion]))


def _text_forms(key: str, hint: Any) -> Iterator[tuple[str, str]]:
    """Yield the forms in which a key accepts text, each with the override that makes some file read the key."""
    companion = _COMPANIONS.get(key, "")
    kinds = {get_origin(kind) or kind for kind in (hint, *get_args(hint))}
    if str in kinds and Mapping not in kinds and not _is_tuple(hint):
        yield f"{key}={{text}}", companion
    if _is_tuple(hint):
        yield f"{key}=[{{text}}]", companion
    if any(isinstance(kind, type) and issubclass(kind, Mapping) for kind in kinds):
        yield f"{key}={{{{{{text}}: {{text}}}}}}", companion
        yield f"{key}={{{{comment: {{text}}}}}}", companion


def _is_tuple(hint: Any) -> bool:
    return any((get_origin(kind) or kind) is tuple and str in _leaf_types(kind) for kind in (hint, *get_args(hint)))


def _leaf_types(hint: Any) -> set[Any]:
    parts = get_args(hint)
    return {leaf for part in parts for leaf in _leaf_types(part)} if parts else {hint}


def quote_as_override_value(text: str) -> str:
    """Return the text as an override's value, with `${` escaped, because it would otherwise start an interpolation."""
    return to_hydra(re.sub(r"(\\*)\$\{", lambda match: match[1] * 2 + "\\${", text))


def find_escaped_text(artifact: Artifact) -> Iterator[str]:
    """Yield each place in a file where hostile text broke out of its string."""
    if MARK not in artifact.text or artifact.path == PROGRAM:
        return
    if artifact.path.endswith((".yaml", ".yml", ".json")):
        yield from _find_marks_in_document(artifact)
    elif artifact.path.endswith((".sh", ".sbatch")) or artifact.text.startswith("#!"):
        yield from (f"{artifact.path}:{line}" for line in _find_marks_in_shell(artifact.text))
    else:
        rows = (INLINE, *LINES.split("\n")[1:])
        escaped_rows = (row for row in artifact.text.split("\n") if row.startswith(rows))
        yield from (f"{artifact.path}: a line of user text: {row!r}" for row in escaped_rows)


def _find_marks_in_shell(text: str) -> Iterator[str]:
    """Yield marks outside single quotes and comments, and a script that ends inside quotes."""
    places = ShellContextScanner()
    for number, row in enumerate(text.split("\n"), 1):
        for piece in re.split(f"({MARK})", row):
            if piece == MARK and places.context not in ("single", "comment"):
                yield f"{number}: {places.context}: {row!r}"
            places.feed(piece)
        places.feed("\n")
    if places.stack != ["code"]:
        yield f"the text ends inside {places.stack[-1]}"


def _find_marks_in_document(artifact: Artifact) -> Iterator[str]:
    """Yield marks outside a document's strings and comments, and marks in strings that are shell code."""
    try:
        is_json = artifact.path.endswith(".json")
        trees = [json.loads(artifact.text)] if is_json else [*yaml.load_all(artifact.text, Loader=_LOADER)]
    except (ValueError, yaml.YAMLError) as error:
        yield f"{artifact.path}: cannot be read: {error}"
        return
    strings = [text for tree in trees for text in _strings_in(tree) if MARK in text]
    comments = re.findall(rf"(?m)^\s*#.*{MARK}.*", artifact.text)
    inside = sum(text.count(MARK) for text in [*strings, *comments])
    if artifact.text.count(MARK) > inside:
        yield f"{artifact.path}: {artifact.text.count(MARK)} marks, {inside} of them in strings and comments"
    for text in strings:
        if not any(hostile in text for hostile in TEXTS) and "\n" in text.replace(LINES, ""):
            yield from (f"{artifact.path}, shell code in it, line {line}" for line in _find_marks_in_shell(text))


def _strings_in(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from (*_strings_in(key), *_strings_in(value))
    elif isinstance(tree, list):
        for value in tree:
            yield from _strings_in(value)
