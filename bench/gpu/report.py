"""Render measurements as a table and a chart. Pure functions; only the chart needs matplotlib."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goals import Goal, at_least, figure, not_below

from jobc.trainer.recipe.mfu import peak_flops

REFERENCE = "bare loop"
PUBLISHED = 460_000  # tokens/s of one H100, PyTorch, GPT-2 124M: modded-nanogpt, 2024-10-18


@dataclass(frozen=True)
class Measured:
    """Measurements of one loop.

    first_step_s   time until its first step was done, including compilation; kernels of an earlier loop are reused
    step_s, cpu_s  time per step, one value per block
    losses         losses of its steps, which must match those of the other loops
    peak_bytes     maximum device memory in use, including the weights and moments of all loops; 0 on a CPU
    """

    first_step_s: float
    step_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    losses: tuple[float, ...]
    peak_bytes: int


def rows(found: Mapping[str, Measured], tokens_per_step: int, flops_per_token: float, device: str) -> list[list[str]]:
    """Return a heading and one row per loop."""
    peak = peak_flops(device)
    heading = ["loop", "ms/step", "tokens/s", "MFU", "wall × bare (95 %)", "CPU × bare (95 %)", "first step", "memory"]
    table = [heading]
    for name, one in found.items():
        step_s = statistics.median(one.step_s)
        rate = tokens_per_step / step_s
        compared = ["–", "–"]
        if REFERENCE in found:
            pairs = ((one.step_s, found[REFERENCE].step_s), (one.cpu_s, found[REFERENCE].cpu_s))
            compared = [str(figure([a / b for a, b in zip(*pair, strict=True)])) for pair in pairs]
        mfu = f"{100 * rate * flops_per_token / peak:.1f} %" if peak else "–"
        table.append([
            name, f"{1000 * step_s:,.1f}", f"{rate:,.0f}", mfu,
            *compared, f"{one.first_step_s:.1f} s", f"{one.peak_bytes / 2**30:.1f} GiB" if one.peak_bytes else "–",
        ])  # fmt: skip
    return table


def goals(found: Mapping[str, Measured], tokens_per_step: int) -> list[Goal]:
    """Return G1 to G4 for the loops that were measured. The goals apply to GPT-2 124M on one H200."""
    ours = found["jobc"].step_s
    per_s = [tokens_per_step / step_s for step_s in ours]
    others = {name: [other / mine for mine, other in zip(ours, one.step_s, strict=True)] for name, one in found.items()}
    made = [at_least("G1", "tokens/s", per_s, 400_000)]
    for goal, name in (("G2", REFERENCE), ("G3", "accelerate")):
        if name in others:
            made.append(not_below(goal, f"speed × {name}", others[name], 1.0))
    if "jobc, eager" in others:
        made.append(at_least("G4", "speed × without torch.compile", others["jobc, eager"], 1.5))
    return made


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Return the rows as a Markdown table with aligned columns."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in table
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def chart(found: Mapping[str, Measured], tokens_per_step: int, title: str, path: Path, published: bool) -> None:
    """Draw each loop's tokens per second: the median and the middle half of its blocks.

    published: whether to draw PUBLISHED too
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    names = list(found)[::-1]
    rates = {name: sorted(tokens_per_step / step_s for step_s in found[name].step_s) for name in names}
    medians = [statistics.median(rates[name]) for name in names]
    quarters = [(rates[name][len(rates[name]) // 4], rates[name][-1 - len(rates[name]) // 4]) for name in names]
    below = [median - low for median, (low, _) in zip(medians, quarters, strict=True)]
    above = [high - median for median, (_, high) in zip(medians, quarters, strict=True)]
    figure, axes = pyplot.subplots(figsize=(8, 0.9 + 0.55 * len(names)), layout="constrained")
    colors = ["#2a6f97" if name == "jobc" else "#b8c4cc" for name in names]
    bars = axes.barh(names, medians, xerr=[below, above], color=colors, ecolor="#444444", capsize=3, height=0.6)
    axes.bar_label(bars, [f"{median:,.0f}" for median in medians], label_type="center")
    if published:
        axes.axvline(PUBLISHED, color="#c1121f", linewidth=1, linestyle="--")
        axes.annotate(f"{PUBLISHED:,} published for one H100", (PUBLISHED, 1), xycoords=("data", "axes fraction"),
                      xytext=(-4, 3), textcoords="offset points", ha="right", fontsize=8, color="#c1121f")  # fmt: skip
    axes.set_xlabel("tokens per second: median of the blocks, and their middle half")
    axes.set_title(title, loc="left", fontsize=10, pad=16)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
