"""References to values that are known only when the job runs: `${jobc:run_id}` in the command and in `env`."""

import re

REFERENCE = re.compile(r"\$\{jobc:([^{}]*)\}")
# every RuntimeVar in lower case, except for the port, which node 0 chooses after launch.sh has filled in the command
NAMES = ("run_id", "run_dir", "job_id", "attempt", "node_rank", "head_addr")
# Variables that begin with AWS_ are needed earlier, because jobctl reads them to find the bucket for runs.
_PLACES = re.compile(r"command\.\d+|env\.(?!AWS_).+")


def first_unknown_reference(text: str) -> str | None:
    """Return the first name referred to in a text for which there is no runtime value."""
    return next((match[1] for match in REFERENCE.finditer(text) if match[1] not in NAMES), None)


def may_contain_references(key: str) -> bool:
    return _PLACES.fullmatch(key) is not None
