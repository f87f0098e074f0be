"""Config files as Hydra sees them, but with every scalar's text and place kept.

In:  a YAML file of a known root.   Out: nested dicts and lists whose scalars are `Text`.
`JobcSource` is a Hydra ConfigSource (scheme `jobc:`), public plugin API of hydra-core 1.3; nothing of Hydra is patched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf
from omegaconf.errors import GrammarParseError
from omegaconf.grammar_parser import parse as parse_interpolation

from .defaults_lists import faults
from .diagnostics import CompileError, Diagnostic
from .text import Origin, Text

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is 6 times faster; PyYAML wheels carry it
_CORE_TAGS = {f"tag:yaml.org,2002:{t}" for t in ("str", "int", "float", "bool", "null", "timestamp", "value")}


USER_ROOTS = ("input", "project", "user")
_OURS = "jobc_config"  # conf/config.yaml by a name that a user's config.yaml does not hide

# Hydra makes the sources, so they can report only here.
read_files: dict[str, str] = {}  # `root:path` -> text
asked: dict[tuple[str, str], Any] = {}  # (question, absolute path) -> the file system's answer


class JobcSource(ConfigSource):
    """One folder of config files.

    provider: names the root for origins: `user`, `project`, `input`, `plugin:NAME`, or `jobc:FOLDER` for our own
    path:     `jobc://` + the absolute folder
    """

    @staticmethod
    def scheme() -> str:
        return "jobc"

    def _file(self, config_path: str) -> str:
        return os.path.join(self.path, config_path)

    def _name(self, config_path: str) -> str:
        ours = config_path == _OURS and self.provider == "jobc:conf"
        return str(self._normalize_file_name("config" if ours else config_path))

    def available(self) -> bool:
        return bool(_ask("a folder", self.path))

    def is_group(self, config_path: str) -> bool:
        return bool(_ask("a folder", self._file(config_path)))

    def is_config(self, config_path: str) -> bool:
        return bool(_ask("its kind", self._file(self._name(config_path))))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        found: list[str] = []
        for name in _ask("its names", self._file(config_path)):
            if not name.startswith("."):
                self._list_add_result(found, os.path.join(config_path, name), name, results_filter)
        return sorted(set(found))

    def load_config(self, config_path: str) -> ConfigResult:
        file = self._name(config_path)
        if not _kind(self._file(file)):
            raise ConfigLoadError(f"Config not found : {file}")
        root, path = origin_root(self.provider, file)
        text = read_text(self._file(file), Origin(root, path))
        read_files[f"{root}:{path}"] = asked["its text", self._file(file)] = text
        tree = read_tree(text, root, path)
        if file == "config.yaml" and self.provider in USER_ROOTS:
            _lay_over_ours(tree)
        return ConfigResult(
            config=OmegaConf.create(tree, flags={"allow_objects": True}),
            path=f"{self.scheme()}://{self.path}",
            provider=self.provider,
            header=self._header(text[:512], Origin(root, path)),
        )

    def _header(self, text: str, origin: Origin) -> dict[str, str | None]:
        """What `# @package NAME` says at the top of a file. Raises CompileError JC1002 when it is not two words."""
        try:
            return self._get_header_dict(text)
        except ValueError:
            lines = list(enumerate(text.splitlines(), 1))
            number, line = next((n, ln) for n, ln in lines if re.match(r"\s*#\s*@", ln) and len(_words(ln)) != 2)
        because = f"Hydra reads it as a word and its value, and finds {len(_words(line)) - 1} values"
        hint = "# @package _global_"
        place = Origin(origin.root, origin.path, number, line.index("@") + 1)
        raise CompileError([Diagnostic("JC1002", f"{line.strip()!r} is no header", because, hint, place)])


_FILE = "a file"


def _kind(path: str) -> str:
    """What bears the name of a config file; "" for nothing. Whatever it is, nothing of that name elsewhere is meant."""
    if not os.path.lexists(path):
        return ""
    if os.path.isfile(path):
        return _FILE
    if os.path.isdir(path):
        return "a folder"
    return "a device or a pipe" if os.path.exists(path) else "a link that leads to no file"


def _text(path: str) -> str:
    with open(path, encoding="utf-8-sig") as stream:
        return stream.read()


def _words(line: str) -> list[str]:
    """As Hydra divides a line of a header, at spaces alone."""
    return [word for word in line.strip().lstrip("#").strip().split(" ") if word]


_QUESTIONS: dict[str, Callable[[str], Any]] = {
    "a folder": os.path.isdir,
    "its kind": _kind,
    "its names": os.listdir,
    "its text": _text,
}


def _ask(question: str, path: str) -> Any:
    answer = asked[question, path] = _QUESTIONS[question](path)
    return answer


def same_answers(before: Mapping[tuple[str, str], Any]) -> bool:
    """Whether the file system would say again what it said, such as `asked` then was."""
    try:
        return all(_QUESTIONS[question](path) == answer for (question, path), answer in before.items())
    except (OSError, UnicodeDecodeError):
        return False


class NoHydraJob(ConfigSource):
    """Empty options for the groups of Hydra that configure a Hydra job: jobc composes and starts none.

    They save reading eight of Hydra's own files, a tenth of a compile.
    """

    _EMPTY = frozenset(
        f"hydra/{group}/default" for group in ("help", "hydra_help", "hydra_logging", "job_logging", "output", "env")
    )

    @staticmethod
    def scheme() -> str:
        return "no-hydra-job"

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return any(name.startswith(f"{config_path}/") for name in self._EMPTY)

    def is_config(self, config_path: str) -> bool:
        return config_path in self._EMPTY

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []

    def load_config(self, config_path: str) -> ConfigResult:
        if config_path not in self._EMPTY:
            raise ConfigLoadError(f"Config not found : {config_path}")
        package = config_path.rpartition("/")[0].replace("/", ".")
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create({}), {"package": package})


def _lay_over_ours(tree: dict[str, Any]) -> None:
    """A user's own config.yaml says what differs from ours: ours comes first in its defaults list."""
    entries = tree.setdefault("defaults", [])
    tree["defaults"] = [_OURS, *entries, *([] if "_self_" in entries else ["_self_"])]


def origin_root(provider: str, file: str) -> tuple[str, str]:
    """(root, path) of a file for its origins; our own folders lie below one root, `jobc`."""
    root, _, folder = provider.partition(":")
    if root == "jobc" and folder:
        return root, f"{folder}/{file}"
    return provider, file


def read_text(file: str, origin: Origin) -> str:
    """The file's text, or CompileError JC1001 when it cannot be read as UTF-8."""
    kind, hint = _kind(file), "save the file as UTF-8 and make it readable"
    try:
        if kind in (_FILE, ""):  # "": gone since somebody looked
            return _text(file)
        because, hint = f"it is {kind}", "put a file there, or move away what is there"
    except UnicodeDecodeError as error:
        because = f"byte {error.start} is not valid UTF-8"
    except OSError as error:
        because = error.strerror or str(error)
    raise CompileError([Diagnostic("JC1001", "cannot read this file", because, hint, origin)])


def read_tree(text: str, root: str, path: str) -> dict[str, Any]:
    """The mapping in one YAML document.

    Raises CompileError with every duplicate key (JC1003), unknown tag (JC1004), cyclic alias (JC1005), non-text key
    (JC1006), broken interpolation (JC1007), `???` (JC1008) and line of a defaults list that Hydra cannot read (JC1105)
    of the file, or the YAML syntax error (JC1002).
    """
    try:
        _refuse_deep(text, Origin(root, path))
        node = yaml.compose(text, Loader=Loader)
        reader = _Reader(root, path)
        empty = isinstance(node, yaml.ScalarNode) and not node.value
        tree = {} if node is None or empty else reader.document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        origin = Origin(root, path, mark.line + 1, mark.column + 1) if mark else Origin(root, path)
        because = error.problem or error.context or str(error)
        if error.context_mark and error.context and error.context_mark.line + 1 != origin.line:
            because = f"{because} ({error.context}, which began in line {error.context_mark.line + 1})"
        raise CompileError([_syntax_error(because, origin)]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise CompileError([_syntax_error(str(error).split("\n", 1)[0], Origin(root, path))]) from None
    if reader.diagnostics:
        raise CompileError(reader.diagnostics)
    return tree


_MOST_VALUES = 100_000  # nine levels of nine aliases are 400 million
_DEEPEST = 100  # libyaml's composer recurses in C and overruns the stack near 30,000 levels


def _refuse_deep(text: str, origin: Origin) -> None:
    """CompileError JC1002 for a document of more than 100 levels; the events of a parser are no recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=Loader) if len(text) > 2 * _DEEPEST else ():
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            mark = event.start_mark
            place = Origin(origin.root, origin.path, mark.line + 1, mark.column + 1) if mark else origin
            because = f"lists and mappings are nested more than {_DEEPEST} levels deep here"
            raise CompileError([Diagnostic("JC1002", "this file is too deep", because, "use fewer levels", place)])


def _tag(tag: str) -> str:
    """A tag as the file spells it: `!!binary`, `!mine`."""
    core = "tag:yaml.org,2002:"
    return f"!!{tag.removeprefix(core)}" if tag.startswith(core) else tag


def _syntax_error(because: str, origin: Origin) -> Diagnostic:
    hint = "quote text that holds `: `, ` #`, `{`, `[`, `*`, `&`, `!`, `%` or `@`; indent with spaces"
    return Diagnostic("JC1002", "this file is not valid YAML", because, hint, origin)


class _Reader:
    """One pass over the node graph of one document; collects diagnostics instead of stopping."""

    def __init__(self, root: str, path: str) -> None:
        self.root, self.path = root, path
        self.diagnostics: list[Diagnostic] = []
        self.open: set[int] = set()  # ids of the collections being read: meeting one again is a cycle
        self.values = 0
        self.key: yaml.Mark | None = None  # where the last key of the text began, those of an alias aside

    def origin(self, node: yaml.Node) -> Origin:
        """Of an alias, whose node is where the anchor is, the key that has it."""
        mark = node.start_mark
        if self.key is not None and mark.index < self.key.index:
            mark = self.key
        return Origin(self.root, self.path, mark.line + 1, mark.column + 1)

    def refuse(self, code: str, node: yaml.Node, title: str, because: str, hint: str) -> None:
        self.diagnostics.append(Diagnostic(code, title, because, hint, self.origin(node)))

    def document(self, node: yaml.Node) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            hint = "write `key: value` lines"
            self.refuse("JC1002", node, "a config file is a mapping", "the document is a list or a single value", hint)
            return {}
        return self.mapping(node, top=True)

    def value(self, node: yaml.Node) -> Any:
        self.values += 1
        if self.values > _MOST_VALUES:
            because = f"it holds more than {_MOST_VALUES:,} values, counting what its aliases repeat"
            raise CompileError([Diagnostic("JC1002", "this file is too big", because, "use fewer", self.origin(node))])
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if id(node) in self.open:
            self.refuse("JC1005", node, "this alias contains itself", "a config is a tree", "copy the values you need")
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node)
            return [self.value(item) for item in node.value]
        finally:
            self.open.discard(id(node))

    def scalar(self, node: yaml.ScalarNode) -> Text | None:
        if node.tag not in _CORE_TAGS:
            because = "a config holds plain values only"
            self.refuse("JC1004", node, f"unknown YAML tag {_tag(node.tag)}", because, "remove the tag")
            return None
        quoted = node.style in ("'", '"', "|", ">")
        if node.tag.endswith(":null") and not quoted:
            return Text("null", self.origin(node), null=True)
        if node.value == "???":
            because = "it marks a value to be given later, and is dropped where a value is there already"
            self.refuse("JC1008", node, "??? is no value", because, "null, or leave the key out")
            return None
        if "${" in node.value:
            try:
                parse_interpolation(node.value)
            except GrammarParseError:
                self.refuse(
                    "JC1007",
                    node,
                    f"cannot read the interpolation in {node.value!r}",
                    "`${` opens an interpolation such as ${name}",
                    "write shell text as \\${HOME}",
                )
                return None
        return Text(node.value, self.origin(node), quoted=quoted)

    def mapping(self, node: yaml.MappingNode, top: bool = False) -> dict[str, Any]:
        out: dict[str, Any] = {}
        first: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if self.key is None or key_node.start_mark.index > self.key.index:
                self.key = key_node.start_mark
            if not isinstance(key_node, yaml.ScalarNode):
                self.refuse("JC1006", key_node, "a key must be text", "this key is a list or a mapping", "use a name")
                continue
            key = key_node.value
            if not key:
                self.refuse("JC1006", key_node, "a key must be text", "this key is empty", "use a name")
                continue
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged = self.value(value_node)
                for one in merged if isinstance(merged, list) else [merged]:
                    if one is not None:  # or it is refused already
                        self.merge(out, one, value_node)
                continue
            if key in first:
                line = first[key].start_mark.line + 1
                self.refuse(
                    "JC1003", key_node, f"duplicate key {key!r}", f"line {line} sets it already", "keep one of the two"
                )
                continue
            first[key] = key_node
            if top and key == "hydra":
                because = "jobc composes with Hydra and starts no Hydra job, so this would change nothing"
                self.refuse("JC1102", key_node, "hydra holds settings of Hydra itself", because, "leave it out")
                continue
            out[key] = self.plain(value_node) if top and key == "defaults" else self.value(value_node)
        return out

    def merge(self, out: dict[str, Any], merged: Any, node: yaml.Node) -> None:
        if isinstance(merged, dict):
            for inherited, inner in merged.items():
                out.setdefault(inherited, inner)
            return
        because = f"this is {'a list' if isinstance(merged, list) else 'a single value'}"
        hint = "an alias of a mapping such as `&a {A: 1}`, or of several: `<<: [*a, *b]`"
        self.refuse("JC1002", node, "<< takes the keys of a mapping", because, hint)

    def plain(self, node: yaml.Node) -> Any:
        """The defaults list, which Hydra itself reads, with YAML's ordinary types."""
        try:
            entries = yaml.constructor.SafeConstructor().construct_document(node)
        except (yaml.MarkedYAMLError, ValueError) as error:
            because = getattr(error, "problem", None) or str(error)
            self.refuse("JC1002", node, "this section is not valid", because, "see hydra.cc for its form")
            return None
        for at, what, hint in faults(entries, node):
            because = f"its section `defaults` must be a list of `- group: option` lines, one group each, and {what}"
            self.refuse("JC1105", at, f"cannot compose: {self.path}", because, hint)
        return entries
