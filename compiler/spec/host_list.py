"""Host lists in the syntax of Slurm and pdsh, such as `gpu[01-03,7],login`: read them, expand them and fold them."""

import re
from collections import Counter
from functools import lru_cache
from itertools import product

from .invalid_value import InvalidValue

MOST_HOSTS = 100_000  # maximum number of hosts per job; files have one line for each


def parse_hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(expand_hostlist(text))
    machines = [normalized_host(host) for host in hosts] if "@" in text or text != text.lower() else hosts
    if len(set(machines)) < len(hosts):
        first = dict(zip(reversed(machines), reversed(hosts), strict=True))
        twice = first[next(machine for machine, count in Counter(machines).items() if count > 1)]
        once = fold_hostlist(tuple(dict.fromkeys(first[machine] for machine in machines)))
        raise InvalidValue(f"{twice} is listed twice, so two nodes would share a rank", once)
    return hosts


def normalized_host(host: str) -> str:
    """Return the host of `user@host` in lower case, for comparison."""
    return host.rpartition("@")[2].lower()


_NUMBERED = re.compile(r"(.*?)(\d{1,18})(\D*)", re.ASCII)


@lru_cache(maxsize=4)  # a compile writes its hosts into several files, and folding 10,000 hosts takes a while
def fold_hostlist(hosts: tuple[str, ...]) -> str:
    """Return a short string that expands to these hosts in this order, folding ranges: `node[1-4],gpu07`."""
    runs: list[tuple[str, str, str, int, int]] = []  # head, tail, text of the first number, its value, count
    for host in hosts:
        match = _NUMBERED.fullmatch(host)
        head, number, tail = match.groups() if match else (host, "", "")
        if runs and match:
            before, behind, first, value, count = runs[-1]
            if (before, behind) == (head, tail) and first and number == f"{value + count:0{len(first)}d}":
                runs[-1] = (before, behind, first, value, count + 1)
                continue
        runs.append((head, tail, number, int(number or 0), 1))
    return ",".join(
        f"{head}[{first}-{value + count - 1:0{len(first)}d}]{tail}" if count > 1 else f"{head}{first}{tail}"
        for head, tail, first, value, count in runs
    )


def expand_hostlist(text: str) -> list[str]:
    """Return the names in `gpu[01-03,7],login`, keeping leading zeros (the syntax of Slurm and pdsh)."""
    hosts: list[str] = []
    if re.search(r",\s*(,|$)|^\s*,", text.strip()):
        names = tuple(word.strip() for word in text.split(",") if word.strip())
        raise InvalidValue("a host name is missing before or after a comma", fold_hostlist(names) or "node[1-4]")
    for word in re.findall(r"(?:[^,\s\[\]]|\[[^\[\]]*\])+|[\[\]]", text):
        hosts += _expand_word(word, MOST_HOSTS - len(hosts))
    if not hosts:
        raise InvalidValue("a host list must be names separated by commas", "node1,node2", "node[1-4]")
    return hosts


def _expand_word(word: str, max_names: int) -> list[str]:
    """Return the names in `gpu[01-03,7]-[1,2]`. Raises InvalidValue if there are more than `max_names`.

    It counts the names before it creates them.
    """
    literals = re.split(r"\[([0-9,-]+)\]", word)  # every second part is the inside of brackets
    parts, count = list[list[str]](), 1
    for index, literal in enumerate(literals):
        parts.append(_expand_ranges(literal) if index % 2 else [literal])
        count *= len(parts[index])
        if count > max_names:
            raise InvalidValue(f"the list has more than {MOST_HOSTS:,} hosts", "node[1-4]")
    name = "".join(part[0] for part in parts)  # the names differ only in digits, so checking one is enough
    if not re.fullmatch(r"(?:\w[\w.-]{,63}@)?\w[\w.:%-]{,252}", name, re.ASCII):
        raise InvalidValue(f"{name[:300]!r} is not a host name", "node1,node2", "node[1-4]")
    if name.count(":") == 1:
        because = "a port is not part of a host name; set Port in ~/.ssh/config, or use backend=ssh with backend.port"
        raise InvalidValue(because, "node1,node2")
    return ["".join(name) for name in product(*parts)]


def _expand_ranges(ranges: str) -> list[str]:
    """Return the numbers in `01-03,7`, with their leading zeros."""
    numbers: list[str] = []
    for part in ranges.split(","):
        bounds = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", part)
        first, last = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (1, 0)
        if bounds is None or not 0 <= last - first <= MOST_HOSTS:
            raise InvalidValue(f"[{ranges[:40]}] is not a range of numbers", "node[1-4]", "node[01-16,20]")
        numbers += [f"{n:0{len(bounds[1])}d}" for n in range(first, last + 1)]
        if len(numbers) > MOST_HOSTS:
            raise InvalidValue(f"the list has more than {MOST_HOSTS:,} hosts", "node[1-4]")
    return numbers
