"""What can be seen in the YAML and JSON files without asking their engine.

In   the emitted files, the plan
Out  `FILE: what is wrong` for: a variable of jobc's that nothing reads; a deepspeed.json that is not what train.json
     asks for
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...trainer.deepspeed_json import DOCUMENT, disagreements
from .scripts import SCRIPT, library

DEEPSPEED = "deepspeed.json"


def mistakes_in_data(files: Mapping[str, str], plan: Mapping[str, Any]) -> Iterator[str]:
    scripts = library()[0] + "\n".join(text for path, text in files.items() if path.endswith(SCRIPT))
    for path, text in files.items():
        if path.endswith(".yaml") and path != "spec.yaml" and "/" not in path:
            for name in sorted(set(re.findall(r"(?<!\$)(?<!\$\{)\bJOBC_\w+", text))):
                if not re.search(rf"\b{name}\b", scripts) and not re.search(rf"\$\{{?{name}\b", text):
                    yield f"{path}: {name} is set, and nothing reads it"
    if DEEPSPEED in files and "train.json" in files:
        yield from _deepspeed(files, plan)


def _deepspeed(files: Mapping[str, str], plan: Mapping[str, Any]) -> Iterator[str]:
    """Beside the keys that somebody merged into it."""
    try:
        given, train = json.loads(files[DEEPSPEED]), json.loads(files["train.json"])
    except ValueError as error:
        yield f"{DEEPSPEED}: this is no JSON: {error}"
        return
    merged = {m[1] for key in plan if (m := re.match(r"(?:backend\.)?deepspeed_extra\.(\w+)", key))}
    of_scripts = set() if plan["uses_trainer"] else {"torch_autocast", "bf16", "fp16"}  # which read these, or none
    known = ({*DOCUMENT} ^ of_scripts) | merged
    for key in sorted(given.keys() - known) if isinstance(given, dict) else ():
        yield f"{DEEPSPEED}: {key} is no key that the plan has a value for"
    for said in disagreements(given, train):
        if re.split(r"[.:]", said)[0] not in merged | of_scripts:
            yield f"{DEEPSPEED}: {said}, as train.json has it"
