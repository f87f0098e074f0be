"""Read a YAML config file into a tree of strings with their positions. Reject everything that Hydra would misread."""

from typing import Any

import yaml
from omegaconf.errors import GrammarParseError

from ...runtime.system.untrusted_files import MIB
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..diagnostics.origin import Origin, TextWithOrigin
from .defaults_lists import find_defaults_list_errors
from .interpolation import check_interpolation_syntax

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is 6 times faster, and PyYAML wheels include it


_CORE_TAGS = {f"tag:yaml.org,2002:{t}" for t in ("str", "int", "float", "bool", "null", "timestamp", "value")}


MOST_BYTES = MIB  # maximum size of one config file


def parse_yaml_tree(text: str, root: str, path: str) -> dict[str, Any]:
    """Return the mapping in one YAML document.

    Raises CompileError, either with the YAML syntax error (JC1002), or with every duplicate key (JC1003), unknown tag
    (JC1004), cyclic alias (JC1005), non-text key (JC1006), invalid interpolation (JC1007), `???` (JC1008) and invalid
    item of a defaults list (JC1105).
    """
    try:
        _reject_deep_nesting(text, Origin(root, path))
        node = yaml.compose(text, Loader=Loader)
        reader = _DocumentReader(root, path)
        empty = isinstance(node, yaml.ScalarNode) and not node.value
        tree = {} if node is None or empty else reader.read_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        origin = Origin(root, path, mark.line + 1, mark.column + 1) if mark else Origin(root, path)
        because = error.problem or error.context or str(error)
        if error.context_mark and error.context and error.context_mark.line + 1 != origin.line:
            because = f"{because} ({error.context}, which began on line {error.context_mark.line + 1})"
        raise CompileError([_syntax_error_diagnostic(because, origin)]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise CompileError([_syntax_error_diagnostic(str(error).split("\n", 1)[0], Origin(root, path))]) from None
    if reader.diagnostics:
        raise CompileError(reader.diagnostics)
    return tree


_MOST_VALUES = 10_000  # maximum in one file; nine levels with nine aliases each would make 400 million


_MOST_FAULTS = 30  # maximum number of faults reported for one file


_DEEPEST = 100  # libyaml's composer recurses in C and overflows the stack near 30,000 levels


def _reject_deep_nesting(text: str, origin: Origin) -> None:
    """Raise CompileError JC1002 for a document nested deeper than _DEEPEST. Parser events need no recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=Loader) if len(text) > 2 * _DEEPEST else ():
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            mark = event.start_mark
            position = Origin(origin.root, origin.path, mark.line + 1, mark.column + 1) if mark else origin
            because = f"the file's lists and mappings are nested more than {_DEEPEST} levels deep"
            raise CompileError(
                [Diagnostic("JC1002", "this file is nested too deeply", because, "use fewer levels", position)]
            )


def _short_tag(tag: str) -> str:
    """Return a tag as written in the file, such as `!!binary` or `!mine`."""
    core = "tag:yaml.org,2002:"
    return f"!!{tag.removeprefix(core)}" if tag.startswith(core) else tag


def _syntax_error_diagnostic(because: str, origin: Origin) -> Diagnostic:
    hint = "quote text that contains `: `, ` #`, `{`, `[`, `*`, `&`, `!`, `%` or `@`; indent with spaces"
    return Diagnostic("JC1002", "this file is not valid YAML", because, hint, origin)


class _DocumentReader:
    """Reads one document in one pass over its node graph, and collects diagnostics instead of stopping."""

    def __init__(self, root: str, path: str) -> None:
        self.root, self.path = root, path
        self.diagnostics: list[Diagnostic] = []
        self.open: set[int] = set()  # ids of the collections being read; if one appears again, there is a cycle
        self.values = self.characters = 0
        self.key: yaml.Mark | None = None  # start of the latest key in the text, not counting keys of aliases

    def origin_of_node(self, node: yaml.Node) -> Origin:
        """Return a node's position. For an alias, this is the position of its key, not of the anchor."""
        mark = node.start_mark
        if self.key is not None and mark.index < self.key.index:
            mark = self.key
        return Origin(self.root, self.path, mark.line + 1, mark.column + 1)

    def add_error(self, code: str, node: yaml.Node, title: str, because: str, hint: str) -> None:
        self.diagnostics.append(Diagnostic(code, title, because, hint, self.origin_of_node(node)))
        if len(self.diagnostics) == _MOST_FAULTS:
            raise CompileError(self.diagnostics)

    def read_document(self, node: yaml.Node) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            hint = "write `key: value` lines"
            self.add_error(
                "JC1002", node, "a config file must be a mapping", "the document is a list or a single value", hint
            )
            return {}
        tree = self.read_mapping(node, top=True)
        if "hydra" in tree:  # even if `<<` merges the node
            del tree["hydra"]
            key_node = next((key for key, _ in node.value if key.value == "hydra"), node)
            because = "jobc only composes with Hydra and does not start a Hydra job, so this section has no effect"
            self.add_error("JC1102", key_node, "the hydra section configures Hydra itself", because, "remove it")
        return tree

    def read_node(self, node: yaml.Node) -> Any:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise self.too_big_error(node, f"{_MOST_VALUES:,} values")
        if isinstance(node, yaml.ScalarNode):
            self.characters += len(node.value)
            if self.characters > 4 * MOST_BYTES:
                raise self.too_big_error(node, f"{4 * MOST_BYTES // MIB} MiB of text")
            return self.read_scalar(node)
        if id(node) in self.open:
            self.add_error(
                "JC1005", node, "this alias contains itself", "a config must be a tree", "copy the values you need"
            )
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.read_mapping(node)
            return [self.read_node(item) for item in node.value]
        finally:
            self.open.discard(id(node))

    def too_big_error(self, node: yaml.Node, limit: str) -> CompileError:
        because = f"the file has more than {limit}, counting repetitions through aliases"
        return CompileError(
            [Diagnostic("JC1002", "this file is too big", because, "use fewer aliases", self.origin_of_node(node))]
        )

    def read_scalar(self, node: yaml.ScalarNode) -> TextWithOrigin | None:
        if node.tag not in _CORE_TAGS:
            because = "a config can only contain plain values"
            self.add_error("JC1004", node, f"unknown YAML tag {_short_tag(node.tag)}", because, "remove the tag")
            return None
        quoted = node.style in ("'", '"', "|", ">")
        if node.tag.endswith(":null") and not quoted:
            return TextWithOrigin("null", self.origin_of_node(node), null=True)
        if node.value == "???":
            because = "??? marks a value to be set later, and is ignored if the key already has a value"
            self.add_error("JC1008", node, "??? is not a value", because, "null, or remove the key")
            return None
        if "${" in node.value:
            try:
                check_interpolation_syntax(node.value, self.origin_of_node(node))
            except GrammarParseError:
                self.add_error(
                    "JC1007",
                    node,
                    f"cannot read the interpolation in {node.value!r}",
                    "`${` starts an interpolation such as ${name}",
                    "write shell text as \\${HOME}",
                )
                return None
        return TextWithOrigin(node.value, self.origin_of_node(node), quoted=quoted)

    def read_mapping(self, node: yaml.MappingNode, top: bool = False) -> dict[str, Any]:
        out: dict[str, Any] = {}
        first: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if self.key is None or key_node.start_mark.index > self.key.index:
                self.key = key_node.start_mark
            if not isinstance(key_node, yaml.ScalarNode):
                self.add_error(
                    "JC1006", key_node, "a key must be text", "this key is a list or a mapping", "use a name"
                )
                continue
            key = key_node.value
            if not key:
                self.add_error("JC1006", key_node, "a key must be text", "this key is empty", "use a name")
                continue
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged = self.read_node(value_node)
                for source in merged if isinstance(merged, list) else [merged]:
                    if source is not None:  # None: already rejected
                        self.merge_mappings(out, source, value_node)
                continue
            if key in first:
                line = first[key].start_mark.line + 1
                self.add_error(
                    "JC1003", key_node, f"duplicate key {key!r}", f"line {line} already sets it", "keep one of the two"
                )
                continue
            first[key] = key_node
            out[key] = self.to_plain_data(value_node) if top and key == "defaults" else self.read_node(value_node)
        return out

    def merge_mappings(self, out: dict[str, Any], merged: Any, node: yaml.Node) -> None:
        if isinstance(merged, dict):
            for inherited, inner in merged.items():
                out.setdefault(inherited, inner)
            return
        because = f"the value of << is {'a list' if isinstance(merged, list) else 'a single value'}"
        hint = "an alias of a mapping such as `&a {A: 1}`, or of several: `<<: [*a, *b]`"
        self.add_error("JC1002", node, "<< must merge a mapping", because, hint)

    def to_plain_data(self, node: yaml.Node) -> Any:
        """Return the defaults list with ordinary YAML types, because Hydra itself reads it."""
        try:
            entries = yaml.constructor.SafeConstructor().construct_document(node)
        except (yaml.MarkedYAMLError, ValueError) as error:
            because = getattr(error, "problem", None) or str(error)
            self.add_error("JC1002", node, "this section is not valid", because, "see the defaults list on hydra.cc")
            return None
        for fault_node, fault, hint in find_defaults_list_errors(entries, node):
            because = (
                f"the file's `defaults` section must be a list of `- group: option` lines, one group each, but {fault}"
            )
            self.add_error("JC1105", fault_node, f"cannot compose: {self.path}", because, hint)
        return entries
