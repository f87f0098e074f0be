"""Import and call the user's `_target_`s, inside the job. A failure prints one line and exits with 65.

The user's code is in the rank's working directory, which `python -m` puts on the import path.
"""

import difflib
import functools
import importlib
import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from ..lifecycle.errors import BrokenInput
from ..lifecycle.exit_rank import known_cause
from .target import KEY, is_target

_TRAINER = os.path.dirname(os.path.dirname(__file__))


def instantiate_target(tree: Any, where: str, *first: Any) -> Any:
    """Call a target; instantiate nested targets first. where: the key, for messages; first: positional arguments"""
    if not is_target(tree):
        return _instantiate_nested(tree, where)
    function = import_dotted_name(tree[KEY], where)
    arguments = {key: _instantiate_nested(value, f"{where}.{key}") for key, value in tree.items() if key != KEY}
    _require_callable(function, tree, where)
    call = ", ".join(f"{key}={value!r:.40}" for key, value in tree.items() if key != KEY)
    return run_user_code(lambda: function(*first, **arguments), f"{where}: {tree[KEY]}({call}) failed")


def target_callable(tree: Mapping[str, Any], where: str) -> Callable[..., Any]:
    """Return the callable that a target describes: an instance of its class, or its function with bound arguments."""
    function = import_dotted_name(tree[KEY], where)
    if isinstance(function, type):
        instance: Callable[..., Any] = instantiate_target(tree, where)
        return instance
    _require_callable(function, tree, where)
    arguments = {key: _instantiate_nested(value, f"{where}.{key}") for key, value in tree.items() if key != KEY}
    return functools.partial(function, **arguments) if arguments else function


def _require_callable(function: Any, tree: Mapping[str, Any], path: str) -> None:
    if not callable(function):
        raise BrokenInput(f"{path}: {tree[KEY]} is neither a class nor a function, but {function!r:.60}")


def import_dotted_name(dotted: str, where: str) -> Any:
    """Import the object with a dotted name, such as `my_pkg.nets.Net` or `my_pkg.Net.tiny`. Raises BrokenInput."""
    parts = dotted.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:length])
        try:
            value: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
                continue  # not a module, perhaps a class in one
            raise user_error(f"{where}: cannot import {module_name}", error) from error
        except Exception as error:
            raise user_error(f"{where}: cannot import {module_name}", error) from error
        for name in parts[length:]:
            if not hasattr(value, name):
                near = difflib.get_close_matches(name, dir(value), n=1)
                has = f"{getattr(value, '__file__', None) or value} has no {name}"
                raise BrokenInput(f"{where}: {has}", hint=f"did you mean {near[0]}?" if near else None)
            value = getattr(value, name)
        return value
    hint = f"the working directory is {os.getcwd()}: set the folder of your code with `code.root` (code=snapshot)"
    raise BrokenInput(f"{where}: no module named {parts[0]}, needed for {dotted}", hint=hint)


def run_user_code(work: Callable[[], Any], title: str) -> Any:
    """Return the result of `work`. Report an error on one line, with exit code 65, unless its cause is known or a retry
    may help, as after a memory or connection error.
    """
    try:
        return work()
    except Exception as error:
        is_oom = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # the second is torch's
        if is_oom or isinstance(error, ConnectionError | TimeoutError) or known_cause(error) is not None:
            raise
        raise user_error(title, error) from error


def user_error(title: str, error: Exception) -> BrokenInput:
    """Return a BrokenInput that shows an error in the user's code on one line, and its file and line number below."""
    message = next(iter(str(error).strip().splitlines()), "")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_trainer_file(frame.filename)]
    location = [f"{frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}"] if frames else []
    return BrokenInput(f"{title}: {type(error).__name__}{': ' if message else ''}{message[:300]}", location)


def _is_trainer_file(filename: str) -> bool:
    return filename.startswith("<frozen") or os.path.abspath(filename).startswith(_TRAINER + os.sep)


def _instantiate_nested(tree: Any, path: str) -> Any:
    if is_target(tree):
        return instantiate_target(tree, path)
    if isinstance(tree, Mapping):
        return {key: _instantiate_nested(value, f"{path}.{key}") for key, value in tree.items()}
    return [_instantiate_nested(item, path) for item in tree] if isinstance(tree, list | tuple) else tree
