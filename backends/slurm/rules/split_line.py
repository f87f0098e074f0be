"""JC4303: text that an #SBATCH line would not hand on as it is: the line is read by sbatch, not by a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....compiler.diagnostics import Diagnostic
from ....compiler.plan import LaunchPlan
from ..options import SlurmOptions
from ..spelling import LONG, more_option


def check(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    queue = plan.queue
    texts = {
        "gpu_type": plan.resources.gpu_type,
        "queue.name": queue.name,
        "queue.account": queue.account,
        "queue.qos": queue.qos,
        "queue.priority": queue.priority,
        "queue.reservation": queue.reservation,
        "backend.constraint": options.constraint,
        **{f"queue.after.{i}": job for i, job in enumerate(queue.after)},
        **{f"backend.extra.{name}": more_option(name, value) or None for name, value in options.extra.items()},
    }
    for key, text in texts.items():
        if text is not None and not re.fullmatch(r"[\w.,:+=/@%&|*()\[\]-]+", text, re.ASCII):
            title = f"{key}: {text!r} does not fit in an #SBATCH line"
            because = "sbatch would split or cut it: letters, digits and .,:+=/@%&|*()[]-_ only"
            yield Diagnostic("JC4303", title, because, f"another {key}", key=key)
        elif text is not None and key.startswith("backend.extra.") and not re.match(rf"--{LONG}(=|$)", text):
            because = "an option has its long name here, by which it can be told from those that jobc says itself"
            yield Diagnostic("JC4303", f"{key}: {text!r} is no long option", because, f"leave out {key}", key=key)
