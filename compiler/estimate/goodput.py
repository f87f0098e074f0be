"""Compute the best checkpoint interval and the resulting goodput (Young, Daly).

J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974), 530.
J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (2006), 303: equations
20 (run time) and 37 (interval). Assumptions: failures are independent, the time between failures of a node is
exponentially distributed, and any failure ends the attempt.
"""

import math

from ...runtime.system.frozen_dataclass import dataclass


@dataclass(frozen=True)
class Goodput:
    """Goodput.

    mtbf_s: mean time between failures of the whole job.
    interval_s: time between saves.
    fraction: fraction of wall time spent training, 0 to 1.

    `interval_s` and `fraction` describe the job as configured, and are None if the step time is unknown.
    `best_interval_s` and `best_fraction` describe the best interval.
    """

    mtbf_s: float
    interval_s: float | None
    fraction: float | None
    best_interval_s: float
    best_fraction: float


def estimate_goodput(
    node_mtbf_s: float, nodes: int, save_s: float, restart_s: float, interval_s: float | None
) -> Goodput:
    """Return the goodput.

    save_s: seconds for which a save stops training.
    restart_s: seconds from a failure to the next new step.
    """
    mtbf_s = node_mtbf_s / nodes
    best_s = best_interval_s(mtbf_s, save_s)
    current_fraction = None if interval_s is None else goodput_fraction(interval_s, mtbf_s, save_s, restart_s)
    return Goodput(mtbf_s, interval_s, current_fraction, best_s, goodput_fraction(best_s, mtbf_s, save_s, restart_s))


def best_interval_s(mtbf_s: float, save_s: float) -> float:
    """Return Daly's equation 37, or mtbf_s if a save takes at least twice as long."""
    if save_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = save_s / (2 * mtbf_s)
    return math.sqrt(2 * save_s * mtbf_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_s


def goodput_fraction(interval_s: float, mtbf_s: float, save_s: float, restart_s: float) -> float:
    """Return Daly's equation 20 as the fraction of wall time spent training."""
    exponent = (interval_s + save_s) / mtbf_s + restart_s / mtbf_s
    if exponent > 100:  # only one attempt in e^100 would succeed
        return 0.0
    spent = mtbf_s * math.exp(restart_s / mtbf_s) * math.expm1((interval_s + save_s) / mtbf_s)
    return interval_s / spent if spent else 1.0
