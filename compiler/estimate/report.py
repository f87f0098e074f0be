"""Format the figures of several sizes, as a table for people (one column per size) and as JSON and CSV for programs."""

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from ..spec.value_types import format_duration
from .figures import Figures, size_text
from .goodput import Goodput
from .memory import MAY_BE_UNKNOWN, Memory
from .training_length import TrainingLength

Format = Callable[[Any], str]
SUMS = ("total", "error")  # properties of Memory in addition to its fields
UNKNOWN = "–"
_count, _share = "{:,}".format, "{:.1%}".format


def _format_seconds(value: float) -> str:
    return f"{value:,.3g} s" if value < 60 else format_duration(round(value))


def _size_unless_zero(value: int) -> str:
    return size_text(value) if value else UNKNOWN


def _total_rows() -> Iterator[tuple[str, str, Format]]:
    """Yield a row for each set of parts that may be unknown, because such totals cannot be compared."""
    for count in range(len(MAY_BE_UNKNOWN) + 1):
        for unknown in combinations(MAY_BE_UNKNOWN, count):
            named = ", ".join("largest_unit" if part == "gathered" else part for part in unknown)
            yield f"without {named}" if unknown else "total", "memory", partial(_format_total, unknown)


def _format_total(unknown: tuple[str, ...], memory: Memory) -> str:
    return size_text(memory.total) if memory.unknown_parts == unknown else UNKNOWN


# heading -> rows: name, field of Figures, format. A row without values is omitted.
SECTIONS: tuple[tuple[str, tuple[tuple[str, str, Format], ...]], ...] = (
    (
        "steps",
        (
            ("ranks", "schedule.world_size", _count),
            ("samples per step", "schedule.global_batch", _count),
            ("  per pass of a rank", "schedule.micro", _count),
            ("  passes per rank", "schedule.accumulation", _count),
            ("samples per epoch", "schedule.epoch_samples", _count),
            ("steps per epoch", "schedule.steps_of_epoch", _count),
            ("  rounded up", "schedule.steps_ceil", _count),
            ("  rounded down", "schedule.steps_floor", _count),
            ("  quotient", "schedule.steps_quotient", "{:,.3f}".format),
            ("  empty slots in the last step", "schedule.empty_slots", _count),
            ("epochs", "schedule.epochs", "{:,.4g}".format),
            ("steps", "schedule.steps", _count),
            ("samples", "schedule.samples", _count),
            ("tokens", "schedule.tokens", _count),
        ),
    ),
    (
        "memory per rank",
        (
            ("model parameters", "parameters", _count),
            ("weights", "memory.weights", size_text),
            ("gradients", "memory.gradients", size_text),
            ("optimizer", "memory.optimizer", size_text),
            ("casts and buckets", "memory.buffers", size_text),
            ("gathered", "memory.gathered", _size_unless_zero),
            ("activations", "memory.activations", size_text),
            *_total_rows(),
            ("  give or take", "memory.error", size_text),
            ("in CPU memory", "memory.host", _size_unless_zero),
            ("a checkpoint", "memory.checkpoint", size_text),
            ("  a run's checkpoints on disk", "checkpoint_bytes", size_text),
        ),
    ),
    (
        "memory per node",
        (
            ("requested", "mem", size_text),
            ("  of which shared", "shm", size_text),
            ("  used by batches, at most", "batches", size_text),
            ("resuming needs", "resuming", size_text),
        ),
    ),
    (
        "time and cost",
        (
            ("one step", "step_s", _format_seconds),
            ("one epoch", "epoch_s", _format_seconds),
            ("training", "total_s", _format_seconds),
            ("writing a checkpoint", "write_s", _format_seconds),
            ("time between failures", "goodput.mtbf_s", _format_seconds),
            ("time between saves", "goodput.interval_s", _format_seconds),
            ("best time between saves", "goodput.best_interval_s", _format_seconds),
            ("share of time spent training", "goodput.fraction", _share),
            ("best share of time spent training", "goodput.best_fraction", _share),
            ("with failures and saves", "wall_s", _format_seconds),
            ("GPU hours", "gpu_hours", "{:,.1f}".format),
            ("cost", "cost", "{:,.2f}".format),
        ),
    ),
)


def _format_cell(figures: Figures, field: str, form: Format) -> str:
    value: Any = figures
    for name in field.split("."):
        value = None if value is None else getattr(value, name)
    return UNKNOWN if value is None else form(value)


def format_figures_table(sizes: Sequence[Figures]) -> str:
    lines = [["", *(figures.label for figures in sizes)]]
    for heading, rows in SECTIONS:
        shown = [[name, *(_format_cell(figures, field, form) for figures in sizes)] for name, field, form in rows]
        shown = [row for row in shown if set(row[1:]) != {UNKNOWN}]
        if shown:
            lines += [[], [heading, *[""] * len(sizes)], *([f"  {row[0]}", *row[1:]] for row in shown)]
    widths = [max(len(row[i]) for row in lines if row) for i in range(len(sizes) + 1)]
    first, *others = widths
    padded = []
    for row in lines:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], others, strict=bool(row))]
        padded.append("  ".join([row[0].ljust(first), *cells]).rstrip() if row else "")
    return "\n".join(padded)


def format_figures_as_json(sizes: Sequence[Figures]) -> str:
    """Return a list of objects with the fields of Figures, in bytes and seconds; null means unknown."""
    return json.dumps([_figures_tree(figures) for figures in sizes], indent=2)


def format_figures_as_csv(sizes: Sequence[Figures]) -> str:
    """Return one line per size. The columns are always the same: the dotted fields of Figures."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_csv_columns()), lineterminator="\n", restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(_flatten_tree(_figures_tree(figures), "") for figures in sizes)
    return text.getvalue().rstrip("\n")


def _figures_tree(figures: Figures) -> dict[str, Any]:
    tree = dataclasses.asdict(figures)
    if figures.memory:
        tree["memory"] |= {name: getattr(figures.memory, name) for name in SUMS}
    return tree


def _csv_columns() -> Iterator[str]:
    parts = {"schedule": TrainingLength, "memory": Memory, "goodput": Goodput}  # fields that have fields themselves
    for field in dataclasses.fields(Figures):
        part = parts.get(field.name)
        yield from (f"{field.name}.{inner.name}" for inner in dataclasses.fields(part)) if part else [field.name]
        yield from (f"memory.{name}" for name in SUMS if part is Memory)


def _flatten_tree(tree: dict[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flatten_tree(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


FORMATS: dict[str, Callable[[Sequence[Figures]], str]] = {
    "table": format_figures_table,
    "json": format_figures_as_json,
    "csv": format_figures_as_csv,
}
