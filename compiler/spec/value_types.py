"""The value types of a spec, and how each is parsed and formatted.

Each type is an `Annotated` alias of a plain Python type, so a spec field reads `time: Duration | None` and holds
seconds as int. A reader takes the text exactly as the user wrote it and returns the value or raises `InvalidValue`.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

from ...runtime.system.frozen_dataclass import dataclass
from .host_list import MOST_HOSTS, fold_hostlist, parse_hosts
from .invalid_value import InvalidValue


@dataclass(frozen=True)
class ValueType:
    """A scalar type.

    name: its name in diagnostics.
    parse: converts text to a value.
    show: converts a value to text that parse() accepts.
    units: whether files contain the text instead of the value, because the text has a unit or is far shorter.
    example: value for hints, if the one that parse() recommends for an empty string does not help.
    """

    name: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    units: bool = False
    example: str = ""


MOST_OF_A_NODE = 10_000  # maximum number of GPUs or processes on one node
LONGEST_NUMBER = 100  # characters; Python needs quadratic time for long numbers


def parse_int(text: str, example: str = "2", least: int | None = None) -> int:
    """Return a 64-bit integer.

    example: valid value for hints.
    least: lower bound of the value that a hint suggests instead of a fraction.
    """
    if re.fullmatch(r"[+-]?(0|[1-9](_?[0-9])*)", text):
        if len(text) > LONGEST_NUMBER or abs(int(text)) >= 2**63:
            raise InvalidValue("engines use 64-bit numbers", example)
        return int(text)
    _require_short(text, example)
    _reject_leading_zero(text)
    if re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?", text) and abs(Decimal(text)) < 10**18:
        number = Decimal(text)
        integer = int(number) or int(number != 0)  # a fraction between 0 and 1 becomes 1, not 0
        fitting = integer if least is None else max(integer, least)
        raise InvalidValue("the number has a fraction or an exponent", str(fitting))
    raise InvalidValue("the value must be an integer", example)


def parse_float(text: str) -> float:
    _require_short(text, "0.001", "1e-3")
    _reject_leading_zero(text)
    if re.fullmatch(r"[+-]?([0-9](_?[0-9])*\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        value = float(text.replace("_", ""))
        if abs(value) != float("inf"):
            return value
    raise InvalidValue("the value must be a finite decimal number", "0.001", "1e-3")


def parse_bool(text: str) -> bool:
    word = text.lower()
    if word in ("true", "yes", "on"):
        return True
    if word in ("false", "no", "off"):
        return False
    raise InvalidValue("the value must be true or false", "true")


def parse_untyped(text: str, quoted: bool = False) -> Any:
    """Return a scalar of an untyped tree, such as backend.extra, parsed by the core schema of YAML 1.2.

    `true`, `8` and `1e-3` are a boolean and numbers; `on`, `0755`, `1_000` and anything in quotes are text.
    """
    quoted = quoted or len(text) > LONGEST_NUMBER
    if not quoted and text in ("true", "false"):
        return text == "true"
    if not quoted and re.fullmatch(r"[-+]?(0|[1-9][0-9]{0,17})", text):
        return int(text)
    if not quoted and re.fullmatch(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]{1,2})?", text):
        return float(text)
    return str(text)


def _make_count_parser(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    def parse_count_in_range(text: str) -> int:
        value = parse_int(text, "1", least)
        if value < least:
            raise InvalidValue(f"the minimum is {least}", str(least))
        if value > most:
            raise InvalidValue(f"the maximum is {most:,}", "8")
        return value

    return parse_count_in_range


def _make_number_parser(least: float, most: float) -> Callable[[str], float]:
    """Parse a finite number within limits that prevent overflow."""

    fitting = f"{max(least, 1):g}"

    def parse_number_in_range(text: str) -> float:
        try:
            value = parse_float(text)
        except InvalidValue as refused:
            values = [candidate for candidate in refused.values if least <= float(candidate) <= most]
            raise InvalidValue(refused.because, *(values or [fitting])) from None
        if not least <= value <= most:
            raise InvalidValue(f"the value must be {least:g} to {most:g}", fitting)
        return value

    return parse_number_in_range


_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def parse_name(text: str) -> str:
    if _NAME.fullmatch(text):
        return text
    fitting = _text_or_fallback(re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:63].strip("._-"), "job")
    raise InvalidValue(
        "a name has 1 to 63 characters from A-Z a-z 0-9 . _ -, and starts and ends with a letter or digit", fitting
    )


def _text_or_fallback(fitting: str, fallback: str) -> str:
    """Return `fitting` unless it is empty or `null`, which a key would not read as text."""
    return fitting if fitting not in ("", "null") else fallback


def _make_pattern_checker(pattern: str, because: str, *examples: str) -> Callable[[str], str]:

    def check_pattern(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise InvalidValue(because, *examples)
        return text

    return check_pattern


def _reject_leading_zero(text: str) -> None:
    if re.fullmatch(r"[+-]?0[0-9]+", text):
        because = "a leading zero means octal in some file formats and nothing in others"
        raise InvalidValue(because, text.lstrip("+-0") or "0")


def _require_short(text: str, *examples: str) -> None:
    if len(text) > LONGEST_NUMBER:
        raise InvalidValue(f"a number has at most {LONGEST_NUMBER} characters", *examples)


def _check_env_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        fitting = re.sub(r"^(?=[0-9])", "_", re.sub(r"[^A-Za-z0-9_]", "_", text)) or "MY_VARIABLE"
        raise InvalidValue("a variable name has letters, digits and _, and does not start with a digit", fitting)
    return text


_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_PARTS_S = {"ms": "0.001", "us": "0.000001"}


def _parse_duration(text: str) -> int:
    if len(text) > LONGEST_NUMBER or re.search(r"[0-9]{10}", text):
        raise InvalidValue("engines do not accept times this long", "365d")
    if match := re.fullmatch(r"(?:([0-9]+)-)?([0-9]+):([0-5][0-9]):([0-5][0-9])", text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    if re.fullmatch(r"([0-9]+(w|d|h|min|m|s))+", text):
        return sum(int(n) * _UNITS_S[unit] for n, unit in re.findall(r"([0-9]+)(w|d|h|min|m|s)", text))
    if re.fullmatch(r"[0-9]+", text):
        raise InvalidValue(
            "a number without a unit means minutes in some engines and seconds in others", f"{text}m", f"{text}s"
        )
    if re.fullmatch(r"[0-9]+:[0-9]+", text):
        raise InvalidValue(
            "two numbers mean hours and minutes in some engines, minutes and seconds in others", f"{text}:00"
        )
    raise InvalidValue(
        "a duration must be a number with a unit, or [days-]hours:minutes:seconds", "12h", "1h30m", "1-12:00:00"
    )


def fractional_duration_in_seconds(text: str) -> str:
    """Convert a duration with a fraction or a unit below 1 s: `0.1` for 100ms, `90` for 1.5m, or "" for other text."""
    match = re.fullmatch(r"([0-9]{1,9})(\.[0-9]{1,9})?(ms|us|s|min|m|h|d|w)", text)
    if match is None or not (match[2] or match[3] in _PARTS_S):
        return ""
    unit = Decimal(_PARTS_S.get(match[3]) or _UNITS_S[match[3]])
    return f"{(Decimal(match[1] + (match[2] or '')) * unit).normalize():f}"


def _parse_time_limit(text: str) -> int:
    seconds = 0 if re.fullmatch(r"0+", text) else _parse_duration(text)
    if seconds == 0:
        raise InvalidValue("0 means no limit in some engines and an immediate timeout in others", "null", "12h")
    return seconds


def format_duration(seconds: int) -> str:
    """Format a duration with the largest unit first, such as 1h30m. Zero is 0s."""
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, _UNITS_S[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


_UNITS_BYTES = {f"{p}{end}": 1024**i for i, p in enumerate("KMGTP", 1) for end in ("iB", "i")} | {
    f"{p}B": 1000**i for i, p in enumerate("KMGTP", 1)
}
_NO_SIZE = "0 means no limit in some engines and zero bytes in others"


def _parse_bytes(text: str) -> int:
    _require_short(text, "64GiB")
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)", text)
    if re.fullmatch(r"0+(\.0+)? ?[KMGTP]?", text, re.IGNORECASE):
        raise InvalidValue(_NO_SIZE, "null", "64GiB")
    if match and match[2] in _UNITS_BYTES:
        size = int(Decimal(match[1]) * _UNITS_BYTES[match[2]])
        if size == 0:
            raise InvalidValue(_NO_SIZE, "null", "64GiB")
        if size >= 2**63:
            raise InvalidValue("engines use 64-bit numbers", "64GiB")
        return size
    if match and match[2].upper() in ("K", "M", "G", "T", "P"):
        unit = match[2].upper()
        raise InvalidValue(f"{unit} is 1024-based in Slurm and 1000-based in Kubernetes", f"{match[1]}{unit}iB")
    if re.fullmatch(r"[0-9]+", text):
        units = ("GiB", "MiB") if len(text) <= 4 else ("MiB",)
        because = "a number without a unit means GB, MiB or bytes, depending on the engine"
        values = [f"{text}{unit}" for unit in units] if len(text) <= 9 else [format_bytes(int(text))]
        raise InvalidValue(because, *values)
    raise InvalidValue("a size must be a number with a unit", "64GiB")


def format_bytes(size: int) -> str:
    """Format a size in the largest binary unit that divides it evenly, such as 64GiB; if none does, in KB."""
    for i, prefix in reversed(list(enumerate("KMGTP", 1))):
        if size and size % 1024**i == 0:
            return f"{size // 1024**i}{prefix}iB"
    return f"{Decimal(size) / 1000:f}KB"


def _parse_port(text: str) -> int:
    value = parse_int(text)
    if not 0 <= value <= 65535 or 0 < value < 1024:
        raise InvalidValue("a port must be 1024 to 65535, or 0 to pick a free one", "29500")
    return value


def _check_download(text: str) -> str:
    hub = re.fullmatch(r"(?:model|dataset):[\w.-]+(?:/[\w.-]+)?(?:@[\w./-]+)?", text, re.ASCII)
    if hub or (text.startswith("run:") and text[4:].strip() and "\n" not in text):
        return text
    example = f"model:{text}" if re.fullmatch(r"[\w.-]+/[\w.-]+", text, re.ASCII) else "model:openai-community/gpt2"
    raise InvalidValue(
        "a reference must name a source and what to read from it", example, "dataset:ORG/NAME@REVISION", "run:COMMAND"
    )


def _check_label(text: str) -> str:
    if re.fullmatch(r"[\w=-][\w.=+-]*", text) and len(text.encode()) <= 200:
        return text
    fitting = _text_or_fallback(re.sub(r"[^\w.=+-]+", "_", text).strip("._")[:60], "a")
    raise InvalidValue(
        "the value becomes part of folder names, so it must be at most 200 bytes of letters, digits and _ . = + -",
        fitting,
    )


def _check_shell_line(text: str) -> str:
    """Return a line for the setup section of launch.sh. Raises InvalidValue for "" and for control characters."""
    if not text.strip():
        raise InvalidValue("it is empty", "ulimit -l unlimited")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
        raise InvalidValue("the text has a control character", "ulimit -l unlimited")
    return text


STEP_END = "END_OF_LINES"  # end word of the here-documents in launch.sh


def _check_step_line(text: str) -> str:
    """Return a line for a here-document in launch.sh. Raises InvalidValue for its end word too."""
    if STEP_END in text.split("\n"):
        raise InvalidValue("in launch.sh, that line would end the block", "rsync -a /data/ /scratch/data/")
    return _check_shell_line(text)


def _check_path(text: str) -> str:
    if not text or "\0" in text or "\n" in text:
        raise InvalidValue("a path must be a single line", "runs")
    return text


Count = Annotated[int, ValueType("a positive integer", _make_count_parser(1))]
CountOrZero = Annotated[int, ValueType("a non-negative integer", _make_count_parser(0))]
NodeCount = Annotated[int, ValueType("a positive integer", _make_count_parser(1, MOST_HOSTS))]
GpuCount = Annotated[int, ValueType("a non-negative integer", _make_count_parser(0, MOST_OF_A_NODE))]
ProcessCount = Annotated[int, ValueType("a positive integer", _make_count_parser(1, MOST_OF_A_NODE))]
Quantity = Annotated[float, ValueType("a quantity", _make_number_parser(1, 1e15), repr)]
Seconds = Annotated[float, ValueType("a number of seconds", _make_number_parser(1e-6, 1e7), repr)]
Price = Annotated[float, ValueType("a price", _make_number_parser(0, 1e6), repr)]
Name = Annotated[str, ValueType("a name", parse_name)]
EnvName = Annotated[str, ValueType("a variable name", _check_env_name)]
Duration = Annotated[int, ValueType("a duration", _parse_duration, format_duration, units=True)]
TimeLimit = Annotated[int, ValueType("a time limit", _parse_time_limit, format_duration, units=True)]
Label = Annotated[str, ValueType("a label", _check_label)]
Bytes = Annotated[int, ValueType("a size", _parse_bytes, format_bytes, units=True)]
Port = Annotated[int, ValueType("a port", _parse_port)]
HostList = Annotated[tuple[str, ...], ValueType("a host list", parse_hosts, fold_hostlist, units=True)]
_REFERENCE = _make_pattern_checker(
    r"env:[A-Za-z_][A-Za-z0-9_]*|(file|k8s):\S+",
    "a secret must be a reference, not a value, because artifacts are shared",
    "env:HF_TOKEN",
    "file:~/.hf_token",
    "k8s:SECRET/KEY",
)
SecretRef = Annotated[str, ValueType("a secret reference", _REFERENCE)]
_INTERFACES = _make_pattern_checker(  # no patterns as in NCCL_SOCKET_IFNAME, which Gloo does not support
    r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,14}(,[A-Za-z0-9][A-Za-z0-9_.:@-]{0,14})*",
    "the value must be interface names as `ip link` shows them, separated by commas",
    "null",
    "eth0",
    "ib0,ib1",
)
Interface = Annotated[str, ValueType("a network interface", _INTERFACES)]
Download = Annotated[str, ValueType("a download", _check_download)]
Path = Annotated[str, ValueType("a path", _check_path)]
EngineLine = Annotated[str, ValueType("a line of bash", _check_shell_line, example="pip install -r requirements.txt")]
ShellLine = Annotated[str, ValueType("a line of bash", _check_shell_line, example="ulimit -l unlimited")]
StepLine = Annotated[str, ValueType("a line of bash", _check_step_line, example="rsync -a /data/ /scratch/data/")]
RankLines = Annotated[str, ValueType("lines of bash", _check_step_line, example="python eval.py")]
MountSource = Annotated[str, ValueType("text", str, example="/data")]
MountTarget = Annotated[str, ValueType("a path", _check_path, example="/data")]

PLAIN: dict[type, ValueType] = {
    int: ValueType("an integer", parse_int),
    float: ValueType("a number", parse_float, repr),
    bool: ValueType("true or false", parse_bool, lambda value: str(value).lower()),
    str: ValueType("text", str),
}
