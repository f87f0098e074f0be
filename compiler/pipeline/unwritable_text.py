"""Report text in the job that cannot be written to a file unchanged (JC4303).

In:  the texts with the plan keys that they were read from, and the source map, which gives the spec keys.
Out: one diagnostic for each spec key. Text that comes from no key is a bug in the backend, reported as JC9002.
"""

import re
from collections.abc import Iterable, Iterator

from ..diagnostics.diagnostic import Diagnostic
from ..emit.line_trace import RefusedText
from ..emit.source_map import SourceMap
from ..plan.shell_quoting import DIRECTIVE


def diagnose_unwritable_text(
    refused: Iterable[RefusedText], source_map: SourceMap, backend: str
) -> Iterator[Diagnostic]:
    reported = set()
    for refusal in refused:
        key = _key(refusal, source_map)
        if key and key not in reported:
            title = f"{key}: {refusal.text!r} is not valid in its {refusal.place}"
            value = str(source_map.spec[key].value)
            hint = (
                f"change {key}" if value.startswith(("[", "{")) else f"{key}={_replace_unwritable(value)}, for example"
            )
            yield Diagnostic("JC4303", title, refusal.because, hint, key=key)
        elif not key:
            title = f"{refusal.text!r} is not valid in its {refusal.place}, and no key of the job contains it"
            yield Diagnostic("JC9002", title, refusal.because, f"this is a bug in backend {backend}: report it")
        reported.add(key)


def _replace_unwritable(text: str) -> str:
    """Return the text with `_` in place of every character that some file cannot contain."""
    return re.sub(r"[^\w.:@%+,/-]+", "_", text) or "NAME"


def _key(refusal: RefusedText, source_map: SourceMap) -> str:
    """Return the spec key whose value contains the rejected text or part of it, or else the first key read."""
    keys = source_map.spec_keys(refusal.keys)
    pieces = [piece for piece in (refusal.text, *re.split("[,:]", refusal.text)) if not DIRECTIVE.fullmatch(piece)]
    values = {key: str(source_map.spec[key].value) for key in keys}
    blamed = (key for key, value in values.items() if any(piece and piece in value for piece in pieces))
    return next(blamed, next((key for key, value in values.items() if value in refusal.text), "")) or "".join(keys[:1])
