"""Keep composition and interpolation from reading anything but the config, and limit the time that they take.

In:  the config that Hydra composes inside restrict_interpolation().
Out: resolved values; MachineDependentError for a value that would depend on this machine; or ExpansionLimitExceeded for
     a config that expands too far.

OmegaConf resolves the same reference again and again, so thirty keys of `${a}${a}` take a billion steps. A budget
therefore limits the number of interpolations that are resolved, and the characters and nodes that they yield. Defaults
lists grow in the same way: if each file includes the next one twice, every file doubles the work. This describes
omegaconf 2.3 and hydra-core 1.3.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from hydra._internal.config_repository import CachingConfigRepository
from omegaconf.base import Container, Node
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import InterpolationResolutionError
from omegaconf.grammar_parser import parse

from ...runtime.system.untrusted_files import MIB
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..diagnostics.origin import Origin, TextWithOrigin

_PURE = ("oc.select",)
_LISTING = ("oc.dict.keys", "oc.dict.values")
_READING = ("oc.env", "now", "hydra", "python_version")


class MachineDependentError(InterpolationResolutionError):
    """Raised for an interpolation whose value would depend on this machine (its environment, files, …).

    Line 1 of the message is what it would read; line 2 is the key.
    """


class ExpansionLimitExceeded(BaseException):
    """Raised if a config expands too far. Not an Exception, because OmegaConf and Hydra rewrite or swallow those."""

    def __init__(self, because: str, origin: Origin | None = None, key: str = "") -> None:
        super().__init__(because)
        hint = "write the values out, or remove the repetition"
        self.diagnostic = Diagnostic("JC1114", "this config expands too far", because, hint, origin, key)


_LIMITS = {  # what is counted in one composition -> (limit, message)
    "interpolations": (2_000, "needs more than {:,} interpolations"),  # 0.05 to 0.3 ms each
    # after expansion; each node of a mapping or list counts as one character
    "characters": (1_000_000, "has interpolations that expand to more than {:,} characters"),
    "text": (16 * MIB, "has files with more than {:,} characters"),
    # 1 ms each; Hydra loads each file twice
    "loads": (1_000, "has defaults lists that load more than {:,} files, counting repeated ones"),
    "values": (50_000, "has files with more than {:,} values, counting repeated ones"),  # 0.1 ms each
}
# What is left for the current config; global, because OmegaConf's containers cannot pass it on.
_remaining: dict[str, int] = {counted: limit for counted, (limit, _) in _LIMITS.items()}
_values_in_file: dict[str, int] = {}  # a config's path -> number of values in it


def reset_budget() -> None:
    _remaining.update({counted: limit for counted, (limit, _) in _LIMITS.items()})
    _values_in_file.clear()


def consume_budget(counted: str, count: int, origin: Origin | None, key: str = "") -> None:
    """Reduce what is left of one of _LIMITS. Raises ExpansionLimitExceeded if nothing is left."""
    _remaining[counted] -= count
    if _remaining[counted] < 0:
        limit, message = _LIMITS[counted]
        raise ExpansionLimitExceeded(f"the config {message.format(limit)}", origin, key)


@contextmanager
def restrict_interpolation() -> Iterator[None]:
    """Run a block with pure resolvers and a budget. Restores the resolvers on exit. Raises CompileError JC1114."""
    resolvers, resolve = BaseContainer._resolvers, Container.resolve_parse_tree
    pure = {name: resolvers[name] for name in _PURE}
    load = CachingConfigRepository.load_config

    def bounded_resolve(self: Any, parse_tree: Any, node: Any, memo: Any = None, key: Any = None) -> Any:
        origin, full_key = _node_origin(node), str(key or "")
        text = node._value() if isinstance(node, Node) else ""
        consume_budget("interpolations", count_interpolations(text) if isinstance(text, str) else 1, origin, full_key)
        value = resolve(self, parse_tree, node, memo, key)
        for size in _sizes_of_parts(value):
            consume_budget("characters", size, origin, full_key)
        return value

    def bounded_load(self: Any, config_path: str) -> Any:
        loaded = load(self, config_path)
        tree = loaded and loaded.config
        if config_path not in _values_in_file:
            _values_in_file[config_path] = sum(1 for _ in _sizes_of_parts(tree))
        consume_budget("loads", 1, _any_origin(tree))
        consume_budget("values", _values_in_file[config_path], _any_origin(tree))
        return loaded

    BaseContainer._resolvers = {
        **pure,
        **{name: _bounded_list(resolvers[name]) for name in _LISTING},
        "jobc": _keep_runtime_reference,
        **{name: _refusing_resolver(name) for name in _READING},
    }
    setattr(Container, "resolve_parse_tree", bounded_resolve)  # noqa: B010
    setattr(CachingConfigRepository, "load_config", bounded_load)  # noqa: B010
    reset_budget()
    try:
        yield
    except ExpansionLimitExceeded as error:
        raise CompileError([error.diagnostic]) from None
    finally:
        BaseContainer._resolvers = resolvers
        setattr(Container, "resolve_parse_tree", resolve)  # noqa: B010
        setattr(CachingConfigRepository, "load_config", load)  # noqa: B010


def check_interpolation_syntax(text: str, origin: Origin | None = None) -> None:
    """Raise GrammarParseError for text whose interpolations cannot be parsed."""
    consume_budget("interpolations", count_interpolations(text), origin)
    parse(text)


def count_interpolations(text: str) -> int:
    """Return the number of interpolations in a text, at least 1. Long ones count more, because they parse slowly."""
    start = text.find("${")
    inside = len(text[start : text.rfind("}") + 1]) if start >= 0 else 0
    return max(1, text.count("${") + inside // 200)


def _keep_runtime_reference(
    _root: Any, _parent: Any, _node: Any, args: tuple[Any, ...], _texts: tuple[str, ...]
) -> str:
    """Return `${jobc:NAME}` unchanged, because its value is known only at run time (plan/runtime_vars.py)."""
    return f"${{jobc:{','.join(map(str, args))}}}"


def _bounded_list(resolve: Any) -> Any:
    def list_items(root: Any, parent: Any, node: Any, *rest: Any) -> Any:
        items = resolve(root, parent, node, *rest)
        consume_budget("interpolations", len(items), _node_origin(node))  # an item costs as much as an interpolation
        return items

    return list_items


def _refusing_resolver(name: str) -> Any:
    def raise_reads_machine(_root: Any, _parent: Any, node: Any, *_: Any) -> NoReturn:
        raise MachineDependentError(f"${{{name}…}} depends on the compiling machine\n{node._get_full_key(None)}")

    return raise_reads_machine


def _node_origin(node: Any) -> Origin | None:
    text = node._value() if isinstance(node, Node) else None
    return text.origin if isinstance(text, TextWithOrigin) else None


def _any_origin(config: Any) -> Origin | None:
    """Return the file that a tree was read from, taken from any of its leaves, or None for an empty tree."""
    content = config._value() if isinstance(config, Node) else config
    if isinstance(content, TextWithOrigin):
        return content.origin.without_line
    inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return next(filter(None, map(_any_origin, inner)), None)


def _sizes_of_parts(value: Any) -> Iterator[int]:
    """Yield the size of each part of a value, which is the number of characters for text and 1 for anything else."""
    content = value._value() if isinstance(value, Node) else value
    if isinstance(content, str):
        yield len(content)
        return
    yield 1
    if isinstance(content, (dict, list)):
        for inner in content.values() if isinstance(content, dict) else content:
            yield from _sizes_of_parts(inner)
