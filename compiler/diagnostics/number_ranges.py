"""Format line or rank numbers for people: `4, 7-9`."""

from collections.abc import Iterable


def format_ranges(numbers: Iterable[int]) -> str:
    """Return the numbers as ranges. numbers: ascending."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
