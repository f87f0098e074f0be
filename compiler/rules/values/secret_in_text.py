"""JC4515: a secret in a text value of the job or of its backend's options, unless another rule checks the key.

spec.yaml contains all of these values, and the engine's files contain most of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ...diagnostics.diagnostic import Diagnostic
from ...emit.source_map import SpecValue
from ...spec.secret_scan import find_secret_in_text

_OWN_RULE = ("env.", "labels.", "secrets.", "command", "code.repository")  # checked by JC4515, JC3003 and JC4516


def check(values: Mapping[str, SpecValue]) -> Iterator[Diagnostic]:
    for key, leaf in values.items():
        if key.startswith(_OWN_RULE):
            continue
        if name := next(filter(None, map(find_secret_in_text, _texts_in(leaf.value))), ""):
            because = "spec.yaml and the emitted files would show it in plain text to everyone who can read the run"
            name = name.upper()
            hint = f"secrets.{name}=env:{name} (for pods k8s:SECRET/KEY), and ${name} where a shell expands the text"
            title = f"{key} contains text that looks like a secret"
            yield Diagnostic("JC4515", title, because, hint, key=key, private=True, judgment=True)


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, Mapping)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(inner)
