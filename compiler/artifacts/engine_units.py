"""Parse Slurm durations and sizes, and Kubernetes quantities.

In:  text such as `0-02:00:00`, `64G` and `204800Mi`.
Out: seconds, bytes or a number. Invalid text raises ValueError.
Source: the sbatch manual of Slurm 25.11 (--time, --mem), and the type Quantity of Kubernetes.
"""

import re
from fractions import Fraction

_UNITS = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000 ** (i + 1)) for i, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Fraction(1024 ** (i + 1)) for i, unit in enumerate("KMGTPE")},
}


def parse_slurm_size(text: str) -> int:
    """Return a `--mem` value in bytes. A number without a unit is in MiB."""
    power = "KMGT".index(text[-1]) + 1 if text[-1:] in (*"KMGT",) else 2
    return int(text.rstrip("KMGT")) << 10 * power


def parse_slurm_duration(text: str) -> int:
    """Return a `--time` value in seconds: D-HH:MM:SS, HH:MM:SS, MM:SS, or a number of minutes."""
    days, _, clock = text.rpartition("-")
    numbers = [int(part) for part in clock.split(":")]
    if days:
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) == 1:
        numbers = [0, *numbers, 0]
    hours, minutes, seconds = [0] * (3 - len(numbers)) + numbers
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def parse_kubernetes_quantity(text: object) -> Fraction:
    """Return a Kubernetes quantity, such as `64.5Gi`, `500m` or 8, as a number."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([a-zA-Z]{0,2})", str(text))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{str(text)!r} is not a quantity such as 64Gi")
    return Fraction(match[1]) * _UNITS[match[2]]
