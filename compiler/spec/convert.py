"""Convert text to typed values. Only this file does so.

In:  a composed tree whose leaves are text, and the dataclass to fill.
Out: the filled dataclass, the canonical text of each leaf, and a diagnostic for each invalid leaf.

Conversion does not stop at the first mistake
"""

import dataclasses
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin

from ...runtime.system.frozen_dataclass import dataclass
from ...trainer.config import target
from ...trainer.config.target import Target
from ..diagnostics.diagnostic import Diagnostic, join_with_or, nearest
from ..diagnostics.origin import Origin, TextWithOrigin, is_null
from . import aliases
from .examples import (
    KEY_LIST,
    accepted_examples,
    describe_kind,
    example_value,
    hint_for_invalid_word,
    is_valid_as,
    list_of_texts,
    override_for_shell,
    sweep_hint,
    to_flow_style,
)
from .invalid_value import InvalidValue
from .runtime_references import NAMES, REFERENCE, first_unknown_reference, may_contain_references
from .type_hints import (
    dataclass_field_types,
    hint_value_type,
    is_mapping,
    join_key,
    spec_keys,
    type_name,
    union_members,
)
from .value_types import (
    Duration,
    EngineLine,
    RankLines,
    ShellLine,
    StepLine,
    ValueType,
    fractional_duration_in_seconds,
    parse_untyped,
)

T = TypeVar("T")
_SHELL_LINES = (ShellLine, StepLine, RankLines)  # of launch.sh
_LINES = (*_SHELL_LINES, EngineLine)
Shown = Any  # str, None, or a list of them
OriginOf = Callable[[str], "Origin | None"]


@dataclass(frozen=True)
class ConversionResult(Generic[T]):
    """Result of convert_tree().

    value: None if there are diagnostics.
    leaves: key -> canonical text, a list of texts, or None.
    """

    value: T | None
    leaves: dict[str, Shown]
    diagnostics: tuple[Diagnostic, ...]


def convert_tree(tree: Mapping[str, Any], into: type[T], origin_of: OriginOf, prefix: str = "") -> ConversionResult[T]:
    """Convert every leaf of `tree` to its field's type in the dataclass `into`.

    prefix: the root's dotted key, for diagnostics and origins.
    Reports at most MOST_DIAGNOSTICS diagnostics: JC1201 for an unknown key, JC1202 for a wrong type, JC1203 for a
    missing key, and JC1204 for null where a value is required.
    """
    converter = _Converter(origin_of)
    try:
        value = converter.convert_dataclass(tree, into, prefix)
    except _TooManyErrors:
        value = None
    return ConversionResult(None if converter.diagnostics else value, converter.leaves, tuple(converter.diagnostics))


_OPTION_OF_KIND = {"gpt": "gpt_tiny"}  # kind -> option of its group, where their names differ
MOST_DIAGNOSTICS = 100  # maximum per tree, because finding similar keys takes 5 ms for each diagnostic


class _TooManyErrors(Exception): ...


class _Converter:
    def __init__(self, origin_of: OriginOf, diagnostics: list[Diagnostic] | None = None) -> None:
        self.origin_of = origin_of
        self.leaves: dict[str, Shown] = {}
        self.diagnostics: list[Diagnostic] = [] if diagnostics is None else diagnostics

    def add_error(self, code: str, key: str, title: str, because: str, hint: str) -> None:
        self.add_diagnostic(Diagnostic(code, title, because, hint, self.origin_of(key), key))

    def add_diagnostic(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)
        if len(self.diagnostics) == MOST_DIAGNOSTICS:
            raise _TooManyErrors

    def convert_dataclass(self, tree: Any, into: type, key: str) -> Any:
        if not isinstance(tree, Mapping):
            first = next(iter(dataclass_field_types(into)))
            hint = f"set a key under {key}, such as {key}.{first}"
            self.add_error("JC1202", key, f"{key} is a mapping", f"{describe_kind(tree)} was given", hint)
            return None
        field_types = dataclass_field_types(into)
        for name in tree:
            if name not in field_types:
                self.report_unknown_key(join_key(key, name), into, key)
        values: dict[str, Any] = {}
        for field in dataclasses.fields(into):
            name = field.name.rstrip("_")
            field_key = join_key(key, name)
            if name in tree:
                values[field.name] = self.convert_value(tree[name], field_types[name], field_key)
            else:
                because = f"{key or 'a job'} requires this key, and nothing sets it"
                beside = self.origin_of(key) if key else None
                origin = self.origin_of(field_key) or (beside and beside.without_line)
                removal = f"remove {origin.path}, or " if origin and origin.path.startswith("~") else ""
                is_item = key.rpartition(".")[2].isdigit()  # an item's keys cannot be set one by one
                hint = f"add {name}: VALUE to item {key}" if is_item else f"{removal}give {field_key} a value"
                self.add_diagnostic(Diagnostic("JC1203", f"missing key {field_key}", because, hint, origin, field_key))
        return into(**values) if len(values) == len(field_types) else None

    def report_unknown_key(self, key: str, into: type, parent: str) -> None:
        name, known = key.rsplit(".", 1)[-1], dataclass_field_types(into)
        close = nearest(name, known)
        engine = "" if parent else aliases.hint_for_foreign_option(key) or aliases.key_from_alias(key)
        if not parent and not engine:
            engine = next((inner for inner in spec_keys(into) if inner.endswith(f".{name}")), "")
        outer, _, inner = key.removeprefix(f"{parent}.").partition(".")
        hint = (
            f"did you mean {join_key(parent, close[0])}?" if close else f"known keys here: {', '.join(sorted(known))}"
        )
        if inner:  # in a file, a dot is part of the key
            hint = f"{outer}: {{{inner}: VALUE}}, because a dot separates sections only on the command line"
        elif engine:
            hint = engine if "=" in engine or " " in engine else f"did you mean {engine}?"
        elif not close and not parent:
            hint = KEY_LIST
        origin = self.origin_of(key)
        position, because = origin and origin.position_of_key(key), "nothing reads this key, so it would have no effect"
        self.add_diagnostic(Diagnostic("JC1201", f"unknown key {key}", because, hint, position, key))

    def convert_value(self, raw: Any, hint: Any, key: str) -> Any:
        if hint is Any:
            return self.convert_untyped(raw, key)
        options = union_members(hint)
        if is_null(raw):
            if type(None) in options:
                self.leaves[key] = None
                return None
            hint_text = f"{key}={example_value(options)}"
            if options == (str,):
                hint_text = f"{key}='\"null\"' for the text null, or {key}= for an empty string"
            self.add_error("JC1204", key, f"{key} cannot be null", f"it needs {type_name(options)}", hint_text)
            return None
        if raw == "" and options == (str, type(None)):
            because = "the value is empty; did it come from an unset shell variable?"
            self.add_error("JC1202", key, f"{key} is an empty string", because, f"{key}=null, to unset it")
            return None
        nullable, options = type(None) in options, tuple(option for option in options if option is not type(None))
        if Target in options and target.is_target(raw):
            return self.convert_target(raw, key)
        options = tuple(option for option in options if option is not Target)
        if all(dataclasses.is_dataclass(option) for option in options):
            return self.convert_variant(raw, options, key)
        option = options[0]
        if is_mapping(option):
            return self.convert_mapping(raw, option, key)
        if get_origin(option) is tuple:
            return self.convert_sequence(raw, option, key)
        return self.convert_scalar(raw, option, key, nullable)

    def convert_variant(self, raw: Any, options: tuple[Any, ...], key: str) -> Any:
        if len(options) == 1:
            return self.convert_dataclass(raw, options[0], key)
        kinds = {kind: option for option in options for kind in get_args(dataclass_field_types(option)["kind"])}
        if not isinstance(raw, Mapping):
            hint = f"set a key under {key}, such as {key}.kind={sorted(kinds)[0]}"
            self.add_error("JC1202", key, f"{key} is a mapping", f"{describe_kind(raw)} was given", hint)
            return None
        kind = "null" if is_null(raw.get("kind")) else to_flow_style(raw["kind"])
        if kind in kinds:
            before = len(self.diagnostics)
            value = self.convert_dataclass(raw, kinds[kind], key)
            self.report_kind_mismatch(key, str(kind), before)
            return value
        fits = [name for name in sorted(kinds) if not {*raw} - {*dataclass_field_types(kinds[name])}] or sorted(kinds)
        close, one_of = nearest(str(kind), fits) or fits, ", ".join(sorted(kinds))
        self.add_error(
            "JC1202",
            join_key(key, "kind"),
            f"{key}.kind: {kind!r} is invalid: must be one of {one_of}",
            f"the kind determines which other keys exist; {key}=OPTION selects another kind with its keys",
            sweep_hint(str(kind), join_key(key, "kind"), kinds.__contains__) or f"{key}.kind={close[0]}",
        )
        return None

    def report_kind_mismatch(self, key: str, kind: str, before: int) -> None:
        """Report a section's missing and unknown keys in one diagnostic if `KEY.kind=` on the command line caused them.

        before: number of earlier diagnostics, which are not about the section.
        """
        kind_key = join_key(key, "kind")
        origin = self.origin_of(kind_key)
        wrong = [d.key for d in self.diagnostics[before:] if d.code in ("JC1201", "JC1203")]
        if not wrong or origin is None or not origin.path.lstrip("+").startswith(f"{kind_key}="):
            return
        self.diagnostics[before:] = [d for d in self.diagnostics[before:] if d.code not in ("JC1201", "JC1203")]
        shown = f"{', '.join(wrong[:3])}{' …' * (len(wrong) > 3)}"
        because = f"{kind_key} alone keeps the keys of the previously chosen option, which do not fit {kind}: {shown}"
        hint = f"{key}={_OPTION_OF_KIND.get(kind, kind)}"
        self.add_error("JC1203", kind_key, f"{kind_key}={kind} needs other keys in {key}", because, hint)

    def convert_target(self, raw: Mapping[str, Any], key: str) -> Any:
        """Return `_target_` and its arguments. The user's code defines their types."""
        target_key = join_key(key, target.KEY)
        if "kind" in raw:
            because = f"kind selects a built-in, {target.KEY} your own class or function"
            hint = f"{key}=target {target_key}={to_flow_style(raw[target.KEY])}, to replace the section"
            self.add_error("JC2090", target_key, f"{key} has both kind and {target.KEY}", because, hint)
            return None
        if is_null(raw[target.KEY]):
            because = f"{key}=target uses your own class or function, so {key}._target_ must name it"
            self.add_error("JC2091", target_key, f"{target_key} is not set", because, f"{target_key}=my_pkg.NAME")
            return None
        tree = {str(name): self.convert_untyped(inner, join_key(key, str(name))) for name, inner in raw.items()}
        for problem in target.find_target_errors(tree, key):
            problem_key, _, reason = problem.partition(": ")
            hint = f"{problem_key}=my_pkg.NAME" if problem_key.endswith(target.KEY) else f"remove {problem_key}"
            self.add_error("JC2092", problem_key, f"{problem_key} cannot be passed to the target", reason, hint)
        return Target(tree)

    def convert_mapping(self, raw: Any, hint: Any, key: str) -> Any:
        key_type, value_type = get_args(hint)
        if not isinstance(raw, Mapping):
            because = f"{'a list' if isinstance(raw, list) else 'a single value'} was given"
            example = f"{key}.{raw}" if isinstance(raw, str) and "=" in raw else f"{key}.NAME=VALUE"
            self.add_error("JC1202", key, f"{key} is a mapping", because, example)
            return None
        out = {}
        for name, inner in raw.items():
            entry_key = join_key(key, str(name))
            self.convert_text(str(name), key_type, entry_key, leaf=False)
            out[str(name)] = self.convert_value(_fill_with_nulls(inner, value_type), value_type, entry_key)
        return types.MappingProxyType(out)

    def convert_untyped(self, raw: Any, key: str) -> Any:
        """Return a tree whose types another program defines, as mappings, tuples and values of parse_untyped()."""
        if isinstance(raw, Mapping):
            return types.MappingProxyType(
                {str(k): self.convert_untyped(v, join_key(key, str(k))) for k, v in raw.items()}
            )
        if isinstance(raw, str) and self.reject_reference(raw, key):
            return None
        value = _untyped_tree(raw)
        self.leaves[key] = _to_plain_value(value)
        return value

    def convert_sequence(self, raw: Any, hint: Any, key: str) -> Any:
        if isinstance(raw, str) and get_args(hint)[0] in _LINES:  # a block of text, as in files of other tools
            lines = [line for line in raw.split("\n") if line.strip()]
            raw = ["\n".join(lines)] if get_args(hint)[0] is RankLines else lines
        if not isinstance(raw, list):
            as_list = example_value((hint,), raw if isinstance(raw, str) else "")
            self.add_error(
                "JC1202", key, f"{key} is a list", f"{describe_kind(raw)} was given", override_for_shell(key, as_list)
            )
            return None
        types_of_items = get_args(hint)
        if types_of_items[-1] is Ellipsis:
            types_of_items = (types_of_items[0],) * len(raw)
        if len(raw) != len(types_of_items):
            title, as_many = f"{key} has {len(types_of_items)} values", example_value((hint,), " ".join(map(str, raw)))
            self.add_error("JC1202", key, title, f"{len(raw)} were given", override_for_shell(key, as_many))
            return None
        inner = _Converter(self.origin_of, self.diagnostics)
        values = tuple(
            inner.convert_value(_fill_with_nulls(item, hint), hint, f"{key}.{i}")
            for i, (item, hint) in enumerate(zip(raw, types_of_items, strict=True))
        )
        self.leaves[key] = [*inner.leaves.values()]
        return values

    def convert_scalar(self, raw: Any, hint: Any, key: str, nullable: bool) -> Any:
        as_list = get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) is tuple
        if isinstance(raw, list) and as_list and all(isinstance(item, str) for item in raw):
            raw = ",".join(raw)
        if isinstance(raw, (list, Mapping)):
            typed = (
                f"""{key}='"{to_flow_style(raw)}"' if it is text"""
                if hint is str
                else f"{key}={example_value((hint,))}"
            )
            above, _, last = key.rpartition(".")
            if last.isdigit():
                typed = list_of_texts(above, example_value((hint,)))
            self.add_error("JC1202", key, f"{key} is {type_name((hint,))}", f"{describe_kind(raw)} was given", typed)
            return None
        return self.convert_text(str(raw), hint, key, nullable)

    def reject_reference(self, text: str, key: str, is_shell: bool = False) -> bool:
        """Report JC1205 for `${jobc:NAME}` if the name is unknown, or if the key is read before the job runs."""
        match = REFERENCE.search(text)
        if match is None:
            return False
        name = match[1]
        if unknown := first_unknown_reference(text):
            because, close = f"known names: {', '.join(NAMES)}", nearest(unknown, NAMES) or NAMES
            self.add_error("JC1205", key, f"${{jobc:{unknown}}} does not exist", because, f"write ${{jobc:{close[0]}}}")
        elif is_shell:
            because = f"launch.sh contains these lines unchanged, and bash does not know {match[0]}"
            self.add_error("JC1205", key, f"{key} contains {match[0]}", because, f"write $JOBC_{name.upper()}")
        elif not may_contain_references(key):
            because = "the value is known only when the job runs, but jobc needs this key earlier"
            self.add_error(
                "JC1205", key, f"{key} contains {match[0]}", because, "use this variable in the command or in env"
            )
        else:
            return False
        return True

    def convert_text(self, text: str, hint: Any, key: str, nullable: bool = False, leaf: bool = True) -> Any:
        if "${jobc:" in text and self.reject_reference(text, key, hint in _SHELL_LINES):
            return None
        if get_origin(hint) is Literal:
            words = [str(word) for word in get_args(hint)]
            if text not in words:
                close = nearest(text, words)
                sweep = sweep_hint(text, key, words.__contains__)
                self.add_error(
                    "JC1202",
                    key,
                    f"{key}: {text!r} is invalid: must be one of {', '.join(words)}",
                    "no other value is supported",
                    sweep or hint_for_invalid_word(key, text, close[0] if close else words[0]),
                )
                return None
            value: Any = get_args(hint)[words.index(text)]
            shown = text
        else:
            scalar = hint_value_type(hint)
            assert scalar is not None, f"no reader for {hint}"
            try:
                value = scalar.parse(text)
            except InvalidValue as error:
                takes_commas = get_origin(get_args(hint)[0] if get_args(hint) else hint) is tuple
                sweep = "" if takes_commas else sweep_hint(text, key, partial(is_valid_as, scalar))
                values = _duration_in_seconds(text, scalar) if key.endswith("_s") else ()
                values = values or accepted_examples(error.values, nullable)
                hint_text = sweep or join_with_or(f"{key}={value}" for value in values)
                if not leaf:  # the text is the name of an entry
                    hint_text = f"{key.removesuffix(text)}{error.values[0]}=VALUE"
                is_private = key.startswith("secrets.") and leaf  # the text may be a secret
                shown_text = "the text" if is_private else repr(text)
                title, origin = f"{key}: {shown_text} is not {scalar.name}", self.origin_of(key)
                self.add_diagnostic(
                    Diagnostic("JC1202", title, error.because, hint_text, origin, key, private=is_private)
                )
                return None
            shown = scalar.show(value)
        if leaf:
            self.leaves[key] = shown
        return value


def _duration_in_seconds(text: str, seconds: ValueType) -> tuple[str, ...]:
    """Convert a duration with a unit to seconds, if the key accepts the resulting number."""
    duration = hint_value_type(Duration)
    assert duration is not None
    try:
        count = fractional_duration_in_seconds(text) or str(duration.parse(text))
        seconds.parse(count)
    except InvalidValue:
        return ()
    return (count,)


def _untyped_tree(raw: Any) -> Any:
    if isinstance(raw, Mapping):
        return types.MappingProxyType({str(key): _untyped_tree(inner) for key, inner in raw.items()})
    if isinstance(raw, list):
        return tuple(_untyped_tree(item) for item in raw)
    return None if is_null(raw) else parse_untyped(raw, isinstance(raw, TextWithOrigin) and raw.quoted)


def _to_plain_value(value: Any) -> Shown:
    if isinstance(value, Mapping):
        return {key: _to_plain_value(inner) for key, inner in value.items()}
    return [_to_plain_value(item) for item in value] if isinstance(value, tuple) else value


def _fill_with_nulls(raw: Any, hint: Any) -> Any:
    """Return an item of a mapping or list, with null for each missing optional key: no file has its defaults."""
    return {**_null_fields(hint), **raw} if dataclasses.is_dataclass(hint) and isinstance(raw, Mapping) else raw


def _null_fields(into: Any) -> dict[str, None]:
    return {name: None for name, hint in dataclass_field_types(into).items() if type(None) in union_members(hint)}
