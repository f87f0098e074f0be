"""Format the figures of several sizes, as a table for people (one column per size) and as JSON and CSV for programs."""

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, get_args, get_type_hints

from ..spec.value_types import format_duration
from .figures import Figures, size_text, total_checkpoint_bytes
from .memory import MAY_BE_UNKNOWN, Memory

Cell = Callable[[Figures], str]
SUMS = ("total", "error")  # properties of Memory in addition to its fields


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def _memory(name: str) -> Cell:
    def format_part(one: Figures) -> str:
        value = getattr(one.memory, name) if one.memory else None
        return "–" if value is None else size_text(value)

    return format_part


def _bytes(value: int | None) -> str:
    return "–" if value is None else size_text(value)


def _total(unknown: tuple[str, ...]) -> Cell:
    def format_total(one: Figures) -> str:
        return size_text(one.memory.total) if one.memory and one.memory.unknown == unknown else "–"

    return format_total


def _sums() -> Iterator[tuple[str, Cell]]:
    for count in range(len(MAY_BE_UNKNOWN) + 1):
        for unknown in combinations(MAY_BE_UNKNOWN, count):
            named = ", ".join("largest_unit" if part == "gathered" else part for part in unknown)
            yield f"without {named}" if unknown else "total", _total(unknown)


def _time(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.3g} s" if value < 60 else format_duration(round(value))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


# heading -> rows. A row without values is omitted.
SECTIONS: tuple[tuple[str, tuple[tuple[str, Cell], ...]], ...] = (
    (
        "steps",
        (
            ("ranks", lambda f: _count(f.schedule.world_size)),
            ("samples per step", lambda f: _count(f.schedule.global_batch)),
            ("  per pass of a rank", lambda f: _count(f.schedule.micro)),
            ("  passes per rank", lambda f: _count(f.schedule.accumulation)),
            ("samples per epoch", lambda f: _count(f.schedule.epoch_samples)),
            ("steps per epoch", lambda f: _count(f.schedule.steps_of_epoch)),
            ("  rounded up", lambda f: _count(f.schedule.steps_ceil)),
            ("  rounded down", lambda f: _count(f.schedule.steps_floor)),
            ("  quotient", lambda f: "–" if f.schedule.steps_quotient is None else f"{f.schedule.steps_quotient:,.3f}"),
            ("  empty slots in the last step", lambda f: _count(f.schedule.empty_slots)),
            ("epochs", lambda f: "–" if f.schedule.epochs is None else f"{f.schedule.epochs:,.4g}"),
            ("steps", lambda f: _count(f.schedule.steps)),
            ("samples", lambda f: _count(f.schedule.samples)),
            ("tokens", lambda f: _count(f.schedule.tokens)),
        ),
    ),
    (
        "memory per rank",
        (
            ("model parameters", lambda f: _count(f.parameters)),
            ("weights", _memory("weights")),
            ("gradients", _memory("gradients")),
            ("optimizer", _memory("optimizer")),
            ("casts and buckets", _memory("buffers")),
            ("gathered", lambda f: size_text(f.memory.gathered) if f.memory and f.memory.gathered else "–"),
            ("activations", _memory("activations")),
            *_sums(),
            ("  give or take", _memory("error")),
            ("in CPU memory", lambda f: size_text(f.memory.host) if f.memory and f.memory.host else "–"),
            ("a checkpoint", _memory("checkpoint")),
            ("  a run's checkpoints on disk", lambda f: _bytes(total_checkpoint_bytes(f))),
        ),
    ),
    (
        "memory per node",
        (
            ("requested", lambda f: _bytes(f.mem)),
            ("  of which shared", lambda f: _bytes(f.shm)),
            ("  used by batches, at most", lambda f: _bytes(f.batches)),
            ("resuming needs", lambda f: _bytes(f.resuming)),
        ),
    ),
    (
        "time and cost",
        (
            ("one step", lambda f: _time(f.step_s)),
            ("one epoch", lambda f: _time(f.epoch_s)),
            ("training", lambda f: _time(f.total_s)),
            ("writing a checkpoint", lambda f: _time(f.write_s)),
            ("time between failures", lambda f: _time(f.goodput.mtbf_s if f.goodput else None)),
            ("time between saves", lambda f: _time(f.goodput.interval_s if f.goodput else None)),
            ("best time between saves", lambda f: _time(f.goodput.best_interval_s if f.goodput else None)),
            ("share of time spent training", lambda f: _share(f.goodput.fraction if f.goodput else None)),
            ("best share of time spent training", lambda f: _share(f.goodput.best_fraction if f.goodput else None)),
            ("with failures and saves", lambda f: _time(f.wall_s)),
            ("GPU hours", lambda f: "–" if f.gpu_hours is None else f"{f.gpu_hours:,.1f}"),
            ("cost", lambda f: "–" if f.cost is None else f"{f.cost:,.2f}"),
        ),
    ),
)


def figures_table(sizes: Sequence[Figures]) -> str:
    """Return a table with one column per size, without a trailing newline."""
    lines = [["", *(figures.label for figures in sizes)]]
    for heading, rows in SECTIONS:
        shown = [[name, *(cell(figures) for figures in sizes)] for name, cell in rows]
        shown = [row for row in shown if set(row[1:]) != {"–"}]
        if shown:
            lines += [[], [heading, *[""] * len(sizes)], *([f"  {row[0]}", *row[1:]] for row in shown)]
    widths = [max(len(row[i]) for row in lines if row) for i in range(len(sizes) + 1)]
    padded = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        if row
        else ""
        for row in lines
    ]
    return "\n".join(line.rstrip() for line in padded)


def figures_as_json(sizes: Sequence[Figures]) -> str:
    """Return a list of objects with the fields of Figures, in bytes and seconds; null means unknown."""
    return json.dumps([_tree(figures) for figures in sizes], indent=2)


def figures_as_csv(sizes: Sequence[Figures]) -> str:
    """Return one line per size. The columns are always the same: the dotted fields of Figures."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_columns(Figures)), lineterminator="\n", restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(_flatten(_tree(figures), "") for figures in sizes)
    return text.getvalue().rstrip("\n")


def _tree(one: Figures) -> dict[str, Any]:
    tree = dataclasses.asdict(one)
    if one.memory:
        tree["memory"] |= {name: getattr(one.memory, name) for name in SUMS}
    return tree


def _columns(figures: type, prefix: str = "") -> Iterator[str]:
    """Yield the dotted columns. figures: a dataclass, whose fields may be dataclasses"""
    types = get_type_hints(figures)
    for field in dataclasses.fields(figures):
        may_be = [
            member_type
            for member_type in (types[field.name], *get_args(types[field.name]))
            if isinstance(member_type, type)
        ]
        held = next(filter(dataclasses.is_dataclass, may_be), None)
        yield from _columns(held, f"{prefix}{field.name}.") if held else [f"{prefix}{field.name}"]
    if figures is Memory:
        yield from (f"{prefix}{name}" for name in SUMS)


def _flatten(tree: dict[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


FORMATS: dict[str, Callable[[Sequence[Figures]], str]] = {
    "table": figures_table,
    "json": figures_as_json,
    "csv": figures_as_csv,
}
