"""reference/ls.md: the options, JSON output and states of `jobc ls`, from runtime/verbs."""

from __future__ import annotations

from jobc.compiler.cli.ls import OPTIONS
from jobc.compiler.cli.run_list import RECORDED_STATES
from jobc.runtime.verbs.run_rows import MOST_FILES

from ._common import GENERATED, table

KEYS = {  # a row's key in JSON -> its meaning
    "job": "name of the job: the folder that contains its runs",
    "run": "ID of the run",
    "path": "the run folder",
    "backend": "backend that compiled the newest attempt; empty when it cannot be read",
    "attempt": "number of the newest attempt; null if there is none",
    "state": "one of the states below",
    "text": "the state as readable text",
    "exit_code": "exit code of the job once it has ended; null when it is not known",
    "step": "last step in the metrics of rank 0; null without metrics",
    "loss": "loss of that step; null without metrics",
    "started": "when the newest attempt was created, in seconds since the epoch",
    "size_bytes": "disk space of the run folder, as reported by `du`; null if it was not computed",
    "size_is_complete": "false when the size is a lower bound, because not all files were counted",
}
STATES = {  # state -> what it means; completes "the run ..."
    "not started": "has no job, or no node has started",
    "submitted": "was submitted to its engine or hosts; its folder contains no later record",
    "queued": "is waiting for nodes",
    "starting": "is waiting for pods or machines",
    "live": "is running",
    "stopping": "is running, and has been asked to stop",
    "done": "ended with exit code 0",
    "stopped": "was stopped by a user",
    "stopped early": "ended with exit code 75: time limit, preemption or a signal; `--state` also accepts `preempted`",
    "failed": "ended with any other exit code, or its supervisor was killed",
    "gone": "ended; the engine does not know its exit code",
    "unknown": "the engine does not respond",
    "of another user": "belongs to another user: its files are only read if you select the run with --run",
    "incomplete": "jobctl submit is still creating it, or was killed while creating it",
    "other layout": "a run folder that this version of jobc cannot read",
}


def page() -> str:
    options = [(f"`{name}`", text) for name, text in OPTIONS.items()]
    keys = [(f"`{name}`", text) for name, text in KEYS.items()]
    states = [
        (f"`{name}`", "ls, status" if name in RECORDED_STATES else "status", text) for name, text in STATES.items()
    ]
    return "\n".join(
        [
            "# jobc ls\n",
            GENERATED,
            INTRODUCTION,
            table(("option", "what it does"), *options),
            JSON,
            table(("key", "what it is"), *keys),
            "## States\n",
            table(("state", "printed by", "the run"), *states),
        ]
    )


INTRODUCTION = f"""\
`jobc ls` lists the runs of all jobs in `runs/` and in the run roots of the artifacts in `artifacts/`. `JOBC_RUN_ROOT`
overrides both. The most recently started run comes first. `jobc ls` reads only run folders; `jobc status` asks the
engine.

`SIZE` is the run folder's disk usage, as reported by `du`. `jobc ls` counts at most {MOST_FILES:,} files, an equal
share for each listed run; `>` marks a run with more files. `--limit` increases the shares.
"""
JSON = """\
## JSON

`--format json` prints `schema` and `runs`, a list. `schema` is the version of this format, currently 1. It changes when
a key is removed or its meaning changes, not when a key is added.
"""
