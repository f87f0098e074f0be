"""Plot the figures of several sizes: memory by part, steps, hours. Needs Matplotlib (extra `plot`).

The same figures give the same bytes, because the file contains no date, and SVG IDs are derived from a fixed salt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .figures import Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = ("weights", "gradients", "optimizer", "buffers", "gathered", "activations")
ENDINGS = (".png", ".svg", ".pdf")
UNDATED = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
ROOM = 34  # maximum number of letters in the labels below a panel, all together
GIB = 2**30
COLUMNS = 3  # columns that the legend has for each panel
FAR = 10  # a limit line above this multiple of the highest bar would flatten the bars


def plot_figures(sizes: Sequence[Figures], gpu_mem: Sequence[int | None], file: Path) -> None:
    """Write the plot. Raises ImportError without Matplotlib, and OSError if the file cannot be written.

    gpu_mem: bytes per GPU for each size.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with_memory = [(figures, has) for figures, has in zip(sizes, gpu_mem, strict=True) if figures.memory]
    steps = {figures.label: figures.schedule.steps_of_epoch or 0 for figures in sizes}
    hours = {figures.label: figures.total_s / 3600 for figures in sizes if figures.total_s}
    panel_count = bool(with_memory) + any(steps.values()) + bool(hours)
    picture = Figure(figsize=(4.5 * max(panel_count, 1), 4), layout="constrained")
    axes = iter(picture.subplots(1, max(panel_count, 1), squeeze=False)[0])
    if with_memory:
        axis = next(axes)
        _draw_memory(axis, with_memory)
        names = axis.get_legend_handles_labels()
        picture.legend(*names, loc="outside lower center", ncols=COLUMNS * panel_count, fontsize="small")
    if any(steps.values()):
        axis = next(axes)
        axis.bar([*steps], [*steps.values()])
        axis.set(title="steps per epoch")
    if hours:
        axis = next(axes)
        axis.bar([*hours], [*hours.values()])
        axis.set(title="training", ylabel="hours")
    labels = [figures.label for figures in sizes]
    if len(labels) * max(map(len, labels)) > ROOM:
        for label in (label for axis in picture.axes for label in axis.get_xticklabels()):
            label.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
    with rc_context({"svg.hashsalt": "jobc"}):
        picture.savefig(file, metadata=UNDATED.get(file.suffix))


def _draw_memory(axis: Axes, sizes: Sequence[tuple[Figures, int | None]]) -> None:
    """Draw a bar with an error bar for each size, and a line at the GPU's memory unless it is far above the bars."""
    places, bottom = range(len(sizes)), [0.0] * len(sizes)
    for part in PARTS:
        heights = [(getattr(figures.memory, part) or 0) / GIB for figures, _ in sizes]
        axis.bar(places, heights, bottom=bottom, label=part)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    memories = [figures.memory for figures, _ in sizes]
    errors = {index: memory.error / GIB for index, memory in enumerate(memories) if memory and memory.error}
    if errors:
        tops = [bottom[index] for index in errors]
        axis.errorbar([*errors], tops, [*errors.values()], fmt="none", color="black", capsize=4, label="give or take")
    limits = {index: has / GIB for index, (_, has) in enumerate(sizes) if has and has / GIB < FAR * max(bottom)}
    if limits:
        ends = [index - 0.5 for index in limits], [index + 0.5 for index in limits]
        axis.hlines([*limits.values()], *ends, color="black", linestyle="dashed", label="gpu_mem")
    axis.set(title="memory per rank", ylabel="GiB")
    axis.set_xticks(places, [figures.label for figures, _ in sizes])
