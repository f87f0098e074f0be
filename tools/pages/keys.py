"""keys.md: every key of a job, from the comments in conf/."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobc.compiler.spec.job_spec import JobSpec
from jobc.compiler.spec.type_hints import accepted_words, dataclass_field_types, hint_value_type, spec_keys, type_of_key
from jobc.trainer.config.target import Target

from ._common import CONF, GENERATED, ROOT, first_comment, table


@dataclass(frozen=True)
class Key:
    """One `key: default  # meaning` line of a config file."""

    key: str
    default: str
    meaning: str


PRESETS = {  # groups that set keys in other sections -> prefix that selects an option, and what the group is for
    "task": ("", "Presets; keys that you set elsewhere override them."),
    "experiment": ("+", "Complete jobs from real teams, as a starting point; keys on the command line override them."),
}


def page() -> str:
    top = list(read_keys(CONF / "config.yaml", ""))
    folders = [f for f in sorted(CONF.iterdir()) if any(f.glob("*.yaml")) and f.name not in PRESETS]
    groups = {folder.name: read_group(folder) for folder in folders}
    documented_keys = {key.key for keys in (top, *groups.values()) for key in keys}
    lacking = {
        key for key in spec_keys(JobSpec) if not any(k == key or k.startswith(f"{key}.") for k in documented_keys)
    }
    assert not lacking, f"no line `key: value  # meaning` in conf/ for {', '.join(sorted(lacking))}"

    out = ["# Keys\n", GENERATED]
    out.append(
        "Every key of a job, from `conf/`. Set a key with `KEY=VALUE`; [values.md](values.md) explains how values are "
        "read.\n"
    )
    out.append("## The job\n")
    out.append(table(("key", "type", "default", "meaning"), *map(row, top)))
    for group, keys in groups.items():
        files = sorted((CONF / group).glob("*.yaml"))
        chosen = default_option(group)
        options = ", ".join(f"`{file.stem}`{' (default)' if file.stem == chosen else ''}" for file in files)
        out.append(f"## Group {group}\n")
        out.append(f"`{group}=` {options}\n")
        out.append(table(("key", "type", "default", "meaning"), *map(row, keys)))
    for group, (prefix, about) in PRESETS.items():
        out += [f"## Group {group}\n", f"{about}\n"]
        presets = [(f"`{prefix}{group}={f.stem}`", first_comment(f)) for f in sorted((CONF / group).glob("*.yaml"))]
        out.append(table(("preset", "what it is"), *presets))
    out.append("## Group backend\n")
    out.append("A backend determines where the nodes come from; its options are under `backend`.\n")
    for file in sorted(ROOT.glob("backends/*/conf/backend/*.yaml")):
        rows = [(f"`{k.key}`", f"`{k.default}`", k.meaning) for k in read_keys(file, "backend")]
        out.append(f"`backend={file.stem}`: {first_comment(file)}\n")
        out.append(table(("key", "default", "meaning"), *rows))
    return "\n".join(out)


def row(key: Key) -> tuple[str, ...]:
    return f"`{key.key}`", " ".join(map(type_name, types_at(key.key))), f"`{key.default}`", key.meaning


def types_at(key: str) -> list[Any]:
    """Return a key's types: one for each variant of its section if they differ, as for `model.kind`."""
    section, _, name = key.rpartition(".")
    variants = getattr(type_of_key(JobSpec, section), "__args__", ()) if section else ()
    variant_hints = [
        dataclass_field_types(variant)
        for variant in variants
        if isinstance(variant, type) and dataclasses.is_dataclass(variant)
    ]
    field_types = [hint[name] for hint in variant_hints if name in hint]
    return list(dict.fromkeys(field_types)) or [_OF_TARGET.get(name) or type_of_key(JobSpec, key)]


_OF_TARGET = {"_target_": str, "val": Target, "collate": str}  # keys whose types are in no dataclass


def read_keys(file: Path, section: str) -> Iterator[Key]:
    """Return a file's keys, two levels deep, from the `key: value  # meaning` lines in conf/."""
    below = section
    for line in file.read_text(encoding="utf-8").split("\n"):
        head = re.match(r"( *)(\w+):(?: +(\S.*?))?(?: +# (.*))?$", line)
        if not head or head[2] == "defaults":
            continue
        indent, name, value, meaning = head.groups()
        if not indent:
            below = section
        key = f"{below}.{name}" if below else name
        if value is None or value.startswith("#"):
            below = key
        elif meaning:
            yield Key(key, value, meaning)


def read_group(folder: Path) -> list[Key]:
    """Return the keys of all of a group's options.

    A key's default comes from the group's default option or, if that lacks the key, from the next option.
    """
    chosen = default_option(folder.name)
    files = sorted(folder.glob("*.yaml"), key=lambda file: (file.stem != chosen, file.stem))
    merged: dict[str, dict[str, Key]] = {}
    for file in files:
        package = re.match(r"# @package (\w+)", file.read_text(encoding="utf-8"))
        for entry in read_keys(file, package[1] if package else folder.name):
            merged.setdefault(entry.key, {})[file.stem] = entry
    return [Key(key, next(iter(by.values())).default, _meaning(by, chosen, folder.name)) for key, by in merged.items()]


def _meaning(by_option: dict[str, Key], chosen: str, group: str) -> str:
    """Return one meaning, or one per option if they differ."""
    used = {option: key.meaning for option, key in by_option.items() if key.meaning != "not used"}
    if len(set(used.values())) == 1 and chosen in by_option:
        return next(iter(used.values()))
    options_by_meaning = {meaning: [option for option in used if used[option] == meaning] for meaning in used.values()}
    return "; ".join(f"for {_list_options(group, options)}: {text}" for text, options in options_by_meaning.items())


def _list_options(group: str, options: list[str]) -> str:
    """Return a list such as "`data=digits`, `target` or `random_tokens`"."""
    first, *rest = options
    names = [f"`{group}={first}`", *(f"`{option}`" for option in rest)]
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def default_option(group: str) -> str:
    defaults = (CONF / "config.yaml").read_text(encoding="utf-8").split("# ----")[0]
    chosen = re.search(rf"^  - {group}: (\w+)", defaults, re.MULTILINE)
    assert chosen, f"conf/config.yaml has no default for the group {group}"
    return chosen[1]


def type_name(hint: Any) -> str:
    """Return the type as it appears in diagnostics, followed by `or null` if null is allowed."""
    optional = " or null" if type(None) in getattr(hint, "__args__", ()) else ""
    words = accepted_words(hint)
    if words:
        return " ".join(f"`{word}`" for word in words) + optional
    scalar_type = hint_value_type(hint) or next(filter(None, map(hint_value_type, getattr(hint, "__args__", ()))), None)
    if scalar_type is not None and "Mapping" not in str(hint) and "tuple[" not in str(hint).split("Annotated")[0]:
        return scalar_type.name + optional
    return ("a mapping" if hint is Target or "Mapping" in str(hint) else "a list") + optional
