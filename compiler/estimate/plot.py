"""The figures of several sizes as a picture: memory by part, steps, hours. Needs Matplotlib (extra `plot`).

The same figures give the same bytes: no date, and ids of SVG from a fixed salt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .figures import Figures

PARTS = ("weights", "gradients", "optimizer", "buffers", "gathered", "activations")
ENDINGS = (".png", ".svg", ".pdf")
UNDATED = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
LONG = 8  # letters of a label that stands upright on its tick


def plot(sizes: Sequence[Figures], file: Path) -> None:
    """Raises ImportError without Matplotlib, OSError when the file cannot be written."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with_memory = [one for one in sizes if one.memory]
    with_time = [one for one in sizes if one.total_s]
    panels = [bool(with_memory), any(one.schedule.steps_of_epoch for one in sizes), bool(with_time)]
    picture = Figure(figsize=(4.5 * max(sum(panels), 1), 4), layout="constrained")
    axes = iter(picture.subplots(1, max(sum(panels), 1), squeeze=False)[0])
    labels = [one.label for one in sizes]
    if panels[0]:
        axis = next(axes)
        bottom = [0.0] * len(with_memory)
        for part in PARTS:
            heights = [(getattr(one.memory, part) or 0) / 2**30 for one in with_memory]
            axis.bar([one.label for one in with_memory], heights, bottom=bottom, label=part)
            bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        axis.set(title="memory of one rank", ylabel="GiB")
        picture.legend(
            *axis.get_legend_handles_labels(), loc="outside lower center", ncols=len(PARTS), fontsize="small"
        )
    if panels[1]:
        axis = next(axes)
        axis.bar(labels, [one.schedule.steps_of_epoch or 0 for one in sizes])
        axis.set(title="steps of an epoch")
    if panels[2]:
        axis = next(axes)
        axis.bar([one.label for one in with_time], [(one.total_s or 0) / 3600 for one in with_time])
        axis.set(title="training", ylabel="hours")
    if max(map(len, labels)) > LONG:
        for label in (label for axis in picture.axes for label in axis.get_xticklabels()):
            label.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
    with rc_context({"svg.hashsalt": "jobc"}):
        picture.savefig(file, metadata=UNDATED.get(file.suffix))
