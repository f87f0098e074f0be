"""Diagnose an override whose key does not exist, and suggest the key that was probably meant, with a valid value."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from ..diagnostics.diagnostic import Diagnostic, join_with_or, nearest
from ..diagnostics.origin import COMMAND_LINE
from ..spec import aliases
from ..spec.examples import KEY_LIST, example_value, override_for_shell
from ..spec.invalid_value import InvalidValue
from ..spec.job_spec import OPEN_KEYS, JobSpec, is_trainer_key
from ..spec.type_hints import accepted_words, hint_value_type, is_list, is_mapping, type_of_key, union_members
from .overrides import Override

_SUGGESTED_KEY = re.compile(r"(?:^|did you mean )~?([a-z_]+(?:\.\w+)*)(?=[=?,])")
TYPO = 0.85  # minimum similarity for a key to count as a typo even if its value has the wrong type: pocs=two
MOST_KEYS = 8  # maximum number of keys that a hint lists


def unknown_key_diagnostic(message: str, culprit: Override, loader: Any, known_keys: list[str]) -> Diagnostic:
    """Return JC1102. message: Hydra's message, which contains the key below a mapping or the group's package"""
    below = re.search(r"full_key: (\S+)", message)
    key = below[1] if below and not culprit.key.startswith(f"{below[1]}.") else culprit.key
    position = culprit.origin.position_of_key(key)
    value = culprit.redacted_text.partition("=")[2]
    because = f"no config file defines {key}"
    if group := re.search(r"Did you mean to override ([^\s?]+)\?", message):
        close, because = [group[1]], f"the group's package is not {culprit.package}"
    elif key == "cluster":
        close, because = [], "no config folder contains a cluster profile, cluster/NAME.yaml"
    elif lacks := aliases.hint_for_unsupported_feature(value):
        hint = f"remove {culprit.redacted_text}; {lacks}"
        return Diagnostic("JC1102", f"unknown key or group {key}", because, hint, position, culprit.key)
    elif advice := aliases.hint_for_foreign_option(key):
        return Diagnostic("JC1102", f"unknown key or group {key}", because, advice, position, culprit.key)
    elif key.lower() in known_keys and key.lower() != key:
        close = [key.lower()]
    elif meant := aliases.key_from_alias(key) or _similar_mapping_key(key, known_keys):
        close = [meant]
    elif others := _backends_with_option(key, loader):
        because = f"it is an option of another backend: {', '.join(others)}"
        hint = f"remove {culprit.redacted_text}, or {join_with_or([f'backend={name}' for name in others])}"
        return Diagnostic("JC1102", f"unknown key or group {key}", because, hint, position, culprit.key)
    else:
        candidates = [k for k in [*known_keys, *loader.list_groups("")] if not f"{key}.".startswith(f"{k}.")]
        close = [
            k for k in nearest(key, candidates, limit=8) if key != culprit.key or _accepts_value(k, key, value, loader)
        ]
    section = key.partition(".")[0]
    if key in known_keys and not culprit.package and loader.get_group_options(section):
        because = f"another option of {section} defines this key, but the chosen option does not"
        hint = f"jobc --cfg job -p {section} prints the section's keys; {section}=OPTION chooses another option"
    elif close:
        named = key.split(".")[close[0].count(".") + 1 :]
        hint = (
            f"did you mean {_corrected_override(close[0], named, value, loader) if key == culprit.key else close[0]}?"
        )
        if culprit.operator == "~" and close[0].startswith(tuple(f"{mapping}." for mapping in OPEN_KEYS)):
            hint = f"did you mean ~{close[0]}?"
    else:
        hint = (
            f"jobc init {value or 'lab'} writes one, to ~/.config/jobc/cluster, or with --project to ./jobc/cluster"
            if key == "cluster"
            else f"remove {culprit.redacted_text} and the override that sets it"
            if culprit.operator == "~" and section in ("env", "labels", "secrets")
            else _section_keys_hint(section, known_keys)
        )
    return Diagnostic("JC1102", f"unknown key or group {key}", because, hint, position, culprit.key)


def for_own_program(diagnostic: Diagnostic) -> Diagnostic:
    """Return the diagnostic of a job that runs the user's own program, which reads no key of the bundled trainer."""
    suggested = _SUGGESTED_KEY.search(diagnostic.hint)
    is_list = diagnostic.hint == KEY_LIST
    if diagnostic.code not in ("JC1102", "JC1201") or not (is_list or (suggested and is_trainer_key(suggested[1]))):
        return diagnostic
    origin = diagnostic.origin
    value = origin.path.partition("=")[2] if origin and origin.root == COMMAND_LINE else ""
    key = diagnostic.key
    words = [f"{key}={value or 'VALUE'}"] if "." in key else [f"--{key}", value or "VALUE"]
    hint = f"pass {shlex.join(words)} to your program, after --"
    return replace(diagnostic, hint=f"{KEY_LIST}; or {hint}" if is_list else hint)


def _backends_with_option(key: str, loader: Any) -> list[str]:
    """Return the backends that have an option with exactly this key, such as backend.port."""
    section, _, option = key.partition(".")
    if section != "backend" or not option:
        return []
    names = loader.get_group_options(section)
    return [name for name in names if option in loader.repository.load_config(f"{section}/{name}").config]


def _similar_mapping_key(key: str, known_keys: Sequence[str]) -> str:
    """Return `labels.team` for lables.team, or "" if no mapping with user-defined keys has a similar name."""
    parts = key.split(".")
    for count in range(1, len(parts)):
        above = ".".join(parts[:count])
        mappings = [k for k in OPEN_KEYS if is_mapping(type_of_key(JobSpec, k)) and k.count(".") == count - 1]
        if above not in known_keys and (close := nearest(above, mappings)):
            return ".".join([close[0], *parts[count:]])
    return ""


def _section_keys_hint(section: str, known_keys: Sequence[str]) -> str:
    """Return a hint that lists a section's keys, if it has only a few."""
    below = {key for key in known_keys if key.startswith(f"{section}.")}
    keys = sorted(key for key in below if not key.rpartition(".")[2].isdigit())  # digits are items of lists
    if not 0 < len(keys) <= MOST_KEYS:
        return KEY_LIST
    *first, last = keys
    return f"known keys: {', '.join(first)} and {last}" if first else f"known key: {last}"


def _accepts_value(key: str, typed: str, value: str, loader: Any) -> bool:
    """Return whether a similarly spelled key accepts the typed value. value: "" if no value was typed"""
    if key.startswith("backend."):
        return True  # the plugin defines the type
    key_type = type_of_key(JobSpec, key)
    if value[:1] == "[":
        return (
            key_type is not None and not is_mapping(key_type) and (is_list(key_type) or bool(hint_value_type(key_type)))
        )
    if not value or value[:1] in ("{", "@", "$", "'", '"') or "," in value:
        return True
    if options := loader.get_group_options(key):
        return bool(value in options or aliases.value_from_alias(key, value) or nearest(value, options))
    if value == "null" or key_type is None or is_list(key_type) or is_mapping(key_type):
        return key_type is not None
    if words := accepted_words(key_type):
        return bool(value.lower() in words or aliases.value_from_alias(key, value) or nearest(value, words))
    scalar = hint_value_type(key_type)
    if scalar is None or value.lower() in ("true", "false"):
        return False  # a section or a boolean, which does not accept the typed value
    try:
        scalar.parse(value)
    except InvalidValue:
        is_typo = _key_similarity(key, typed) >= TYPO
        return is_typo or (scalar.units and value[:1].isdigit())  # the hint shows a valid value or unit
    return True


def _key_similarity(key: str, typed: str) -> float:
    """Return how similar the last parts of two keys are, from 0 to 1."""
    import difflib  # imported here, because most compiles need no suggestion

    return difflib.SequenceMatcher(None, key.rpartition(".")[2], typed.rpartition(".")[2]).ratio()


def _corrected_override(key: str, named: Sequence[str], value: str, loader: Any) -> str:
    """Return `key=value` for the intended key. The value is in brackets for a list and has a name for a mapping. If the
    key's type rejects the typed value, a valid one replaces it. Without a typed value, return only the key.

    named: words typed below the key, such as an item's name.
    """
    key_type = type_of_key(JobSpec, key)
    if is_mapping(key_type) and value == "null":
        return f"{key}={{}}"
    if not value or key_type is None or value[:1] in ("{", "[", "@", "$") or value in loader.get_group_options(key):
        return f"{key}={value}" if value else key
    if is_list(key_type):
        return override_for_shell(key, example_value(union_members(key_type), " ".join([*named, value])))
    if is_mapping(key_type):
        name = value.partition(":")[2] if key == "secrets" and value.startswith("env:") else "NAME"
        key, key_type = f"{key}.{name}", get_args(key_type)[1]
    if meant := aliases.value_from_alias(key, value):
        return f"{key}={meant}"
    is_judged = (hint_value_type(key_type) or accepted_words(key_type)) and re.fullmatch(
        r"[\w.:/%+…-]+", value
    )  # the value is neither a sweep nor quoted text
    return f"{key}={example_value(union_members(key_type), value) if is_judged else value}"
