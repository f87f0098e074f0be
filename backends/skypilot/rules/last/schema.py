"""Values that SkyPilot rejects when it reads the task: JC4718."""

from collections.abc import Iterator, Mapping

from .....compiler.diagnostics.diagnostic import Diagnostic
from ... import schema
from ...finished_task import FinishedTask, removal_hint

# Values in `resources` that SkyPilot's schema does not restrict, but that SkyPilot rejects when it reads them.
TIERS: Mapping[str, tuple[str, ...]] = {
    "disk_tier": ("low", "medium", "high", "ultra", "best"),
    "network_tier": ("standard", "best"),
}


def check_schema_violations(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4718: values in the finished task that SkyPilot's own schema rejects."""
    for path, why in schema.find_schema_errors(task.tree):
        key = task.key_that_set(path)
        hint = f"remove {key}" if key else "docs.skypilot.co/en/latest/reference/yaml-spec.html"
        yield Diagnostic("JC4718", f"SkyPilot would reject {'.'.join(map(str, path))}", why, hint, key=key)


def check_unknown_tier(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4718: an unknown tier. SkyPilot's schema accepts any text, but SkyPilot rejects it when it reads the task."""
    for name, words in TIERS.items():
        tier = task.section("resources").get(name)
        if tier not in (None, *words):
            title, key = f"SkyPilot would reject resources.{name}", task.key_that_set(("resources", name))
            hint = removal_hint(key, f"backend.{name}={words[0]}")
            yield Diagnostic("JC4718", title, f"the value must be one of {', '.join(words)}", hint, key=key)
