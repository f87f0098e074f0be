"""The one place where text becomes typed values.

In:  a composed tree whose leaves are text, and the dataclass it must fill.   Out: the filled dataclass, the place of
every leaf, and a diagnostic for every leaf that does not fit. Nothing stops at the first mistake.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial, reduce
from operator import or_
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ..trainer import target
from ..trainer.target import Target
from .diagnostics import Diagnostic, alternatives, nearest
from .text import Origin, Text, is_null
from .values import PLAIN, Duration, Refused, ValueType, part_of_seconds, read_untyped

T = TypeVar("T")
Shown = Any  # str, None, or a list of them
OriginOf = Callable[[str], "Origin | None"]


@dataclass(frozen=True)
class Converted(Generic[T]):
    """value: None when there is a diagnostic; leaves: key -> (value, canonical text, a list of them, or None)."""

    value: T | None
    leaves: dict[str, tuple[Any, Shown]]
    diagnostics: tuple[Diagnostic, ...]


def convert(tree: Mapping[str, Any], into: type[T], origin_of: OriginOf, prefix: str = "") -> Converted[T]:
    """Type every leaf of `tree` as the fields of the dataclass `into` say.

    prefix: dotted key of the tree's root, for diagnostics and origins
    Diagnostics: JC1201 unknown key, JC1202 wrong type, JC1203 missing key, JC1204 null where a value is needed
    """
    run = _Conversion(origin_of)
    value = run.dataclass(tree, into, prefix)
    return Converted(None if run.diagnostics else value, run.leaves, tuple(run.diagnostics))


def spec_keys(into: type, prefix: str = "") -> list[str]:
    """Every dotted key that a dataclass knows, unions included once each."""
    keys: list[str] = []
    for name, hint in hints(into).items():
        key = join(prefix, name)
        keys.append(key)
        for variant in _variants(hint):
            keys += [k for k in spec_keys(variant, key) if k not in keys]
    return keys


def type_at(into: type, key: str) -> Any:
    """The type of a dotted key, None when there is no such key. Open mappings give their value's type."""
    here: Any = into
    for part in key.split("."):
        if dataclasses.is_dataclass(here):
            here = hints(here).get(part)  # type: ignore[arg-type]
        elif variants := _variants(here):
            found = [hints(v)[part] for v in variants if part in hints(v)]
            here = reduce(or_, found) if found else None  # such as `kind`, whose words are in several
        elif get_origin(here) is not None and is_mapping(here):
            here = get_args(here)[1]
        else:
            return None
    return here


def choices(hint: Any) -> tuple[str, ...]:
    """The words a Literal or a switch accepts, empty for other types."""
    found: list[str] = []
    for option in options_of(hint):
        if option is bool:
            found += ["true", "false"]
        elif get_origin(option) is Literal:
            found += [str(word) for word in get_args(option)]
    return tuple(found)


@cache
def hints(cls: type) -> dict[str, Any]:
    """key -> type of a dataclass's fields. A key that is a Python keyword has a field name with `_` behind it."""
    found = get_type_hints(cls, include_extras=True)
    return {field.name.rstrip("_"): found[field.name] for field in dataclasses.fields(cls)}


@cache
def _field_names(cls: type) -> dict[str, str]:
    return {field.name.rstrip("_"): field.name for field in dataclasses.fields(cls)}


def join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


class _Conversion:
    def __init__(self, origin_of: OriginOf) -> None:
        self.origin_of = origin_of
        self.leaves: dict[str, tuple[Any, Shown]] = {}
        self.diagnostics: list[Diagnostic] = []

    def refuse(self, code: str, key: str, title: str, because: str, hint: str) -> None:
        self.diagnostics.append(Diagnostic(code, title, because, hint, self.origin_of(key), key))

    def dataclass(self, tree: Any, into: type, key: str) -> Any:
        if not isinstance(tree, Mapping):
            first = next(iter(hints(into)))
            hint = f"set a key below {key}, such as {key}.{first}"
            self.refuse("JC1202", key, f"{key} is a mapping", f"{_kind(tree)} was given", hint)
            return None
        known = hints(into)
        for name in tree:
            if name not in known:
                self.unknown(join(key, name), known, key)
        values: dict[str, Any] = {}
        for name, hint in known.items():
            if name in tree:
                values[_field_names(into)[name]] = self.value(tree[name], hint, join(key, name))
            else:
                at = join(key, name)
                because = f"{key or 'a job'} needs it, and nothing gives it a value"
                beside = self.origin_of(key) if key else None
                origin = self.origin_of(at) or (beside and beside.whole)
                removal = f"leave out {origin.path}, or " if origin and origin.path.startswith("~") else ""
                hint = f"{removal}give {at} a value"
                self.diagnostics.append(Diagnostic("JC1203", f"missing key {at}", because, hint, origin, at))
        return into(**values) if len(values) == len(known) else None

    def unknown(self, key: str, known: Mapping[str, Any], parent: str) -> None:
        name = key.rsplit(".", 1)[-1]
        close = nearest(name, known)
        outer, _, inner = key.removeprefix(f"{parent}.").partition(".")
        hint = f"did you mean {join(parent, close[0])}?" if close else f"known here: {', '.join(sorted(known))}"
        if inner:  # a file holds the dot in one key
            hint = f"{outer}: {{{inner}: VALUE}}, for a dot nests on the command line only"
        elif not close and not parent:
            hint = "jobc --help lists the keys"
        origin = self.origin_of(key)
        place, because = origin and origin.of_key(key), "nothing reads it, so it would be dropped"
        self.diagnostics.append(Diagnostic("JC1201", f"unknown key {key}", because, hint, place, key))

    def value(self, raw: Any, hint: Any, key: str) -> Any:
        if hint is Any:
            return self.untyped(raw, key)
        options = options_of(hint)
        if is_null(raw):
            if type(None) in options:
                self.leaves[key] = (None, None)
                return None
            hint_text = f"{key}={example(options)}"
            if options == (str,):
                hint_text = f"{key}='\"null\"' for the text, or {key}= for no text"
            self.refuse("JC1204", key, f"{key} cannot be null", f"it needs {_type_name(options)}", hint_text)
            return None
        if raw == "" and options == (str, type(None)):
            because = "it is empty; was it meant to come from a shell variable that is not set?"
            self.refuse("JC1202", key, f"{key} is empty text", because, f"{key}=null for none")
            return None
        nullable, options = type(None) in options, tuple(option for option in options if option is not type(None))
        if Target in options and target.is_target(raw):
            return self.target(raw, key)
        options = tuple(option for option in options if option is not Target)
        if all(dataclasses.is_dataclass(option) for option in options):
            return self.variant(raw, options, key)
        option = options[0]
        if is_mapping(option):
            return self.mapping(raw, option, key)
        if get_origin(option) is tuple:
            return self.sequence(raw, option, key)
        return self.scalar(raw, option, key, nullable)

    def variant(self, raw: Any, options: tuple[Any, ...], key: str) -> Any:
        if len(options) == 1:
            return self.dataclass(raw, options[0], key)
        kinds = {kind: option for option in options for kind in get_args(hints(option)["kind"])}
        if not isinstance(raw, Mapping):
            hint = f"set a key below {key}, such as {key}.kind={sorted(kinds)[0]}"
            self.refuse("JC1202", key, f"{key} is a mapping", f"{_kind(raw)} was given", hint)
            return None
        kind = "null" if is_null(raw.get("kind")) else _flow(raw["kind"])
        if kind in kinds:
            return self.dataclass(raw, kinds[kind], key)
        fits = [name for name in sorted(kinds) if not {*raw} - {*hints(kinds[name])}] or sorted(kinds)
        close, one_of = nearest(str(kind), fits) or fits, ", ".join(sorted(kinds))
        self.refuse(
            "JC1202",
            join(key, "kind"),
            f"{key}.kind: {kind!r} is none of {one_of}",
            f"the kind decides which other keys there are; {key}=OPTION brings those of another",
            _sweep_hint(str(kind), join(key, "kind"), kinds.__contains__) or f"{key}.kind={close[0]}",
        )
        return None

    def target(self, raw: Mapping[str, Any], key: str) -> Any:
        """`_target_` and its arguments, whose types are the user's."""
        at = join(key, target.KEY)
        if "kind" in raw:
            because = f"kind chooses one of jobc's own, {target.KEY} one of yours"
            hint = f"{key}=target {at}={_flow(raw[target.KEY])}, for a section without jobc's own keys"
            self.refuse("JC2090", at, f"{key} has both kind and {target.KEY}", because, hint)
            return None
        if is_null(raw[target.KEY]):
            because = f"{key}=target is for a class or function of your own, and nothing names it"
            self.refuse("JC2091", at, f"{at} is not set", because, f"{at}=my_pkg.NAME")
            return None
        tree = {str(name): self.untyped(inner, join(key, str(name))) for name, inner in raw.items()}
        for problem in target.problems(tree, key):
            where, _, what = problem.partition(": ")
            hint = f"{where}=my_pkg.NAME" if where.endswith(target.KEY) else f"leave out {where}"
            self.refuse("JC2092", where, f"{where} cannot be passed on", what, hint)
        return Target(tree)

    def mapping(self, raw: Any, hint: Any, key: str) -> Any:
        key_type, value_type = get_args(hint)
        if not isinstance(raw, Mapping):
            because = f"{'a list' if isinstance(raw, list) else 'a single value'} was given"
            self.refuse("JC1202", key, f"{key} is a mapping", because, f"{key}.NAME=VALUE")
            return None
        out = {}
        for name, inner in raw.items():
            at = join(key, str(name))
            self.read(str(name), key_type, at, leaf=False)
            out[str(name)] = self.value(_filled(inner, value_type), value_type, at)
        return types.MappingProxyType(out)

    def untyped(self, raw: Any, key: str) -> Any:
        """A tree whose keys and types are another program's: mappings, tuples and values.read_untyped."""
        if isinstance(raw, Mapping):
            return types.MappingProxyType({str(k): self.untyped(v, join(key, str(k))) for k, v in raw.items()})
        value = _untyped(raw)
        self.leaves[key] = (value, _plain(value))
        return value

    def sequence(self, raw: Any, hint: Any, key: str) -> Any:
        if not isinstance(raw, list):
            as_list = example((hint,), raw if isinstance(raw, str) else "")
            self.refuse("JC1202", key, f"{key} is a list", f"{_kind(raw)} was given", assignment(key, as_list))
            return None
        types_of_items = get_args(hint)
        if types_of_items[-1] is Ellipsis:
            types_of_items = (types_of_items[0],) * len(raw)
        if len(raw) != len(types_of_items):
            title, as_many = f"{key} has {len(types_of_items)} values", example((hint,), " ".join(map(str, raw)))
            self.refuse("JC1202", key, title, f"{len(raw)} were given", assignment(key, as_many))
            return None
        inner = _Conversion(self.origin_of)
        values = tuple(
            inner.value(_filled(item, hint), hint, f"{key}.{i}")
            for i, (item, hint) in enumerate(zip(raw, types_of_items, strict=True))
        )
        self.diagnostics += inner.diagnostics
        self.leaves[key] = (values, [text for _, text in inner.leaves.values()])
        return values

    def scalar(self, raw: Any, hint: Any, key: str, nullable: bool) -> Any:
        as_list = get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) is tuple
        if isinstance(raw, list) and as_list and all(isinstance(item, str) for item in raw):
            raw = ",".join(raw)
        if isinstance(raw, (list, Mapping)):
            typed = f"""{key}='"{_flow(raw)}"' if it is text""" if hint is str else f"{key}={example((hint,))}"
            above, _, last = key.rpartition(".")
            if last.isdigit():
                typed = f"{above}=[{example((hint,))}], one text for each item"
            self.refuse("JC1202", key, f"{key} is {_type_name((hint,))}", f"{_kind(raw)} was given", typed)
            return None
        return self.read(str(raw), hint, key, nullable)

    def read(self, text: str, hint: Any, key: str, nullable: bool = False, leaf: bool = True) -> Any:
        if get_origin(hint) is Literal:
            words = [str(word) for word in get_args(hint)]
            if text not in words:
                close = nearest(text, words)
                sweep = _sweep_hint(text, key, words.__contains__)
                self.refuse(
                    "JC1202",
                    key,
                    f"{key}: {text!r} is none of {', '.join(words)}",
                    "only these are known",
                    sweep or f"{key}={close[0] if close else words[0]}",
                )
                return None
            value: Any = get_args(hint)[words.index(text)]
            shown = text
        else:
            scalar = value_type(hint)
            assert scalar is not None, f"no reader for {hint}"
            try:
                value = scalar.read(text)
            except Refused as error:
                takes_commas = get_origin(get_args(hint)[0] if get_args(hint) else hint) is tuple
                sweep = "" if takes_commas else _sweep_hint(text, key, partial(_is_read, scalar))
                values = _in_seconds(text, scalar) if key.endswith("_s") else ()
                values = values or _taken(error.values, nullable)
                hint_text = sweep or alternatives(f"{key}={value}" for value in values)
                if not leaf:  # the name of an entry
                    hint_text = f"{key.removesuffix(text)}{error.values[0]}=VALUE"
                is_private = key.startswith("secrets.") and leaf  # it may be a secret
                given = "the text" if is_private else repr(text)
                title, origin = f"{key}: {given} is not {scalar.name}", self.origin_of(key)
                self.diagnostics.append(
                    Diagnostic("JC1202", title, error.because, hint_text, origin, key, private=is_private)
                )
                return None
            shown = scalar.show(value)
        if leaf:
            self.leaves[key] = (value, shown)
        return value


def _in_seconds(text: str, seconds: ValueType) -> tuple[str, ...]:
    """What a duration with a unit is for a key that counts seconds, if it takes that many."""
    duration = value_type(Duration)
    assert duration is not None
    try:
        count = part_of_seconds(text) or str(duration.read(text))
        seconds.read(count)
    except Refused:
        return ()
    return (count,)


def _untyped(raw: Any) -> Any:
    if isinstance(raw, Mapping):
        return types.MappingProxyType({str(key): _untyped(inner) for key, inner in raw.items()})
    if isinstance(raw, list):
        return tuple(_untyped(item) for item in raw)
    return None if is_null(raw) else read_untyped(raw, isinstance(raw, Text) and raw.quoted)


def _plain(value: Any) -> Shown:
    """An untyped value as JSON has it."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _filled(raw: Any, hint: Any) -> Any:
    """An item of a mapping or list: no file gives it defaults."""
    return {**_nulls(hint), **raw} if dataclasses.is_dataclass(hint) and isinstance(raw, Mapping) else raw


def _nulls(into: Any) -> dict[str, None]:
    """The keys of a dataclass that may be null."""
    return {name: None for name, hint in hints(into).items() if type(None) in options_of(hint)}


def _kind(raw: Any) -> str:
    """What was given, in words: a list, a mapping, or the text."""
    if isinstance(raw, list):
        return "a list"
    return "a mapping" if isinstance(raw, Mapping) else f"the single value {raw!r}"


def _flow(raw: Any) -> str:
    """A value as one would type it on the command line."""
    if isinstance(raw, list):
        return "[" + ",".join(_flow(item) for item in raw) + "]"
    if isinstance(raw, Mapping):
        return "{" + ",".join(f"{name}: {_flow(inner)}" for name, inner in raw.items()) + "}"
    return "null" if is_null(raw) else str(raw)


def example(options: tuple[Any, ...], text: str = "") -> str:
    """A value of the type: the text where it is one, else what its reader recommends for it.

    text: of a list the items, of a section in a list its first keys
    """
    option = next(o for o in options if o is not type(None))
    words = choices(option)
    scalar = value_type(option)
    if words:
        return text if text in words else (nearest(text, words) or words)[0]
    if scalar is None:
        given = re.split(r"[\s,]+", text) if text else []
        is_section = is_mapping(option) or dataclasses.is_dataclass(option)
        return "{}" if is_section else _list_example(get_args(option), given)
    if not text and scalar.example:
        return scalar.example
    try:
        value = scalar.read(text)
    except Refused as error:
        return _taken(error.values, type(None) in options)[0]
    return text or scalar.show(value) or "TEXT"


def _taken(values: tuple[str, ...], nullable: bool) -> tuple[str, ...]:
    """Of the values that a reader recommends, those that the key takes."""
    return tuple(value for value in values if nullable or value != "null") or ("TEXT",)


def _list_example(types_of_items: tuple[Any, ...], given: list[str]) -> str:
    """One of as many items as the type has; more than are given repeat the last."""
    first = types_of_items[0]
    if types_of_items[-1] is Ellipsis and not given:
        return "[]"
    if isinstance(first, type) and dataclasses.is_dataclass(first):
        needed = [(name, hint) for name, hint in hints(first).items() if type(None) not in options_of(hint)]
        texts = [*given, *[""] * len(needed)]
        keys = (f"{name}: {example((hint,), text)}" for (name, hint), text in zip(needed, texts, strict=False))
        return f"[{{{', '.join(keys)}}}]"
    if types_of_items[-1] is Ellipsis:
        types_of_items = (first,) * len(given)
    texts = [*given, *(given[-1:] or [""]) * len(types_of_items)]
    items = (example((hint,), text) for hint, text in zip(types_of_items, texts, strict=False))
    return f"[{','.join(items)}]"


def assignment(key: str, value: str) -> str:
    """`key=value` as a shell takes it."""
    return f"'{key}={value}'" if "{" in value else f"{key}={value}"


def _sweep_hint(text: str, key: str, fits: Callable[[str], bool]) -> str:
    """ "" where one of the values would be refused as well. fits: whether a text is a value of the key"""
    is_sweep = "," in text and all(fits(value) for value in text.split(","))
    return f"for a sweep: jobc -m {key}={text}" if is_sweep else ""


def _is_read(scalar: Any, text: str) -> bool:
    try:
        scalar.read(text)
    except Refused:
        return False
    return True


def options_of(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(option for member in get_args(hint) for option in options_of(member))
    return (hint,)


def _variants(hint: Any) -> list[type]:
    return [option for option in options_of(hint) if isinstance(option, type) and dataclasses.is_dataclass(option)]


def is_list(hint: Any) -> bool:
    """Whether it is typed in brackets. A list of hosts is one text (Annotated)."""
    return any(get_origin(option) is tuple for option in options_of(hint))


def is_mapping(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def value_type(hint: Any) -> ValueType | None:
    """How a scalar type is read and shown; None for lists, mappings, sections and Literals."""
    for option in options_of(hint):
        if get_origin(option) is Annotated:
            return next(extra for extra in get_args(option)[1:] if isinstance(extra, ValueType))
        if isinstance(option, type) and option in PLAIN:
            return PLAIN[option]
    return None


def _type_name(options: tuple[Any, ...]) -> str:
    option = next(o for o in options if o is not type(None))
    if get_origin(option) is Literal:
        return "one of " + ", ".join(str(word) for word in get_args(option))
    if is_mapping(option) or dataclasses.is_dataclass(option):
        return "a mapping"
    if get_origin(option) is tuple:
        return "a list"
    scalar = value_type(option)
    return scalar.name if scalar else "text"
