"""Values given to `jobctl submit` for one run: arguments appended to the user's command, and environment variables.

In and out: the keys `arguments` and `env` of RUN/state/run, each one line of JSON. All attempts of the run use them.
Nodes that cannot read the submitting machine's run folder get both keys in the variable JOBC_SUBMITTED.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

from ..exit_codes import CRASHED, DATA_BROKEN
from ..system.failure import Failure
from ..system.reserved_variables import DEFAULTS, is_reserved
from ..system.text import printable
from ..system.untrusted_files import Unreadable, read_bytes
from ..system.values import MOST_BYTES as MOST_STATE_BYTES
from ..system.values import parse_keys, read_keys

# variables whose value is prepended to the value that modules and environments set, also in `env`
PATH_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PYTHONPATH", "MANPATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH",
)  # fmt: skip
_OF_LAUNCHERS = ("TORCHELASTIC_", "PET_", "ACCELERATE_")  # prefixes of variables that launchers set or read
VARIABLE = "JOBC_SUBMITTED"
_KINDS: Mapping[str, type] = {"arguments": list, "env": dict}
MOST_BYTES = 32768  # of both keys, so that state/run is read as a whole (values.py)
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile("(TOKEN|KEY|SECRET|PASSWORD|PASSWD)$", re.IGNORECASE)


class SubmittedValues(NamedTuple):
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = {}

    @classmethod
    def read(cls, run: Path) -> SubmittedValues:
        """Return a run's values. They are empty if none were given, or if the file was not written by jobc."""
        return cls._from_keys(read_keys(run / "state/run"))

    @classmethod
    def take(cls, environ: MutableMapping[str, str], is_training: bool = False) -> SubmittedValues:
        """Return the values for this node's ranks, and remove the variable JOBC_SUBMITTED.

        is_training: raise Failure if the run's values cannot be read, because this node's ranks might run with other
        values than the other nodes' or an earlier attempt's.
        """
        keys = _parse_base64(environ.pop(VARIABLE, ""))
        source: str | Path = VARIABLE
        if not keys and environ.get("JOBC_RUN_DIR"):
            source = Path(environ["JOBC_RUN_DIR"], "state/run")
            keys = _read_keys_or_fail(source) if is_training else read_keys(source)
        if is_training and (broken := [name for name, kind in _KINDS.items() if not _is_valid(keys.get(name), kind)]):
            title = f"{source}: {broken[0]}= is damaged: not what jobctl submit wrote"
            raise Failure(title, "jobctl submit starts a new run with the values that you give", DATA_BROKEN)
        return cls._from_keys(keys)

    @classmethod
    def _from_keys(cls, keys: Mapping[str, str]) -> SubmittedValues:
        arguments, env = _parse(keys.get("arguments", "[]")), _parse(keys.get("env", "{}"))
        arguments = arguments if isinstance(arguments, list) else []
        env = env if isinstance(env, dict) else {}
        return cls(tuple(map(str, arguments)), {name: str(value) for name, value in env.items() if _is_settable(name)})

    def keys(self) -> dict[str, str]:
        """Return the keys for state/run, none without values."""
        values = {"arguments": self.arguments, "env": self.env}
        return {name: json.dumps(value) for name, value in values.items() if value}

    def encode_for_variable(self) -> str:
        """Return the value of JOBC_SUBMITTED, in base64 so that no engine changes it, or "" without values."""
        return base64.b64encode(json.dumps(self.keys()).encode()).decode() if self != NO_VALUES else ""

    def format_as_options(self) -> str:
        """Return the values as words for `jobctl submit`."""
        env = [word for name, value in self.env.items() for word in ("--env", f"{name}={value}")]
        return shlex.join([*env, *(["--", *self.arguments] if self.arguments else [])])

    def set_variables(self, environ: MutableMapping[str, str]) -> None:
        """Set the variables. Folders are prepended to PATH and similar variables, unless they are there already."""
        for name, value in self.env.items():
            current = environ.get(name, "") if name in PATH_VARIABLES else ""
            if current:
                is_first = f"{current}{os.pathsep}".startswith(f"{value}{os.pathsep}")
                value = current if is_first else f"{value}{os.pathsep}{current}"
            environ[name] = value


NO_VALUES = SubmittedValues()


def checked_values(assignments: Iterable[str], arguments: Iterable[str], node: Mapping[str, Any]) -> SubmittedValues:
    """Return the values for a new run. Raises Failure if this job cannot use them.

    assignments: values of --env; arguments: the words after `--`; node: the node's settings in job.json
    """
    values = SubmittedValues(tuple(arguments), dict(map(_split_assignment, assignments)))
    if values.arguments and node.get("uses_trainer"):
        why = "the bundled trainer takes no arguments"
        raise Failure(why, "compile the job with other overrides, or a sweep: jobc -m …", 2)
    if secret := next((name for name in values.env if name in (node.get("secrets") or {})), ""):
        raise Failure(f"--env {secret}: {secret} is one of this job's secrets", f"export {secret} before you submit", 2)
    if secret := next(filter(_SECRET_NAME.search, values.env), ""):
        title = f"--env {secret}: the name suggests a secret, and --env stores values in plain text"
        hint = f"add secrets.{secret}=env:{secret} to the job, and export {secret} before you submit"
        raise Failure(title, hint, 2)
    if sum(map(len, values.keys().values())) > MOST_BYTES:
        raise Failure(f"--env and the words after -- exceed {MOST_BYTES} bytes", "put them in a file", 2)
    return values


def _split_assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise Failure(f"--env takes NAME=VALUE, not {text}", "jobctl submit --help", 2)
    if not _is_settable(name):
        raise Failure(f"--env {name}: jobc or the launcher sets this variable", "choose another name", 2)
    return name, value


def _is_settable(name: str) -> bool:
    is_free = name in (*PATH_VARIABLES, *DEFAULTS) or not (is_reserved(name) or name.startswith(_OF_LAUNCHERS))
    return is_free and bool(_NAME.fullmatch(name))


def _read_keys_or_fail(path: Path) -> dict[str, str]:
    try:
        content = read_bytes(path, MOST_STATE_BYTES, follow=False)
    except Unreadable as error:
        title = f"cannot read the arguments and variables of the first submit: {error}"
        raise Failure(title, "check the storage of the run folder", CRASHED) from None
    keys = parse_keys(printable(content.decode(errors="replace")))
    if b"\0" in content or "job" not in keys:
        raise Failure(f"{path} is damaged", "jobctl submit starts a new run", DATA_BROKEN)
    return keys


def _is_valid(text: str | None, kind: type) -> bool:
    """Return whether a key is missing, or is JSON of that kind with texts."""
    tree = _parse(text) if text is not None else kind()
    texts = tree.values() if isinstance(tree, dict) else tree
    return isinstance(tree, kind) and all(isinstance(entry, str) for entry in texts)


def _parse_base64(text: str) -> dict[str, str]:
    try:
        keys = _parse(base64.b64decode(text, validate=True).decode())
    except ValueError:
        keys = None
    return {str(name): str(value) for name, value in keys.items()} if isinstance(keys, dict) else {}


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
