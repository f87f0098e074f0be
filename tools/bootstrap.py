"""Create the virtual environment that every `make` target uses.

    python3 tools/bootstrap.py demo      jobc and the trainer
    python3 tools/bootstrap.py dev       the same, plus the tools that lint and test it

Needs Python >= 3.10 with ensurepip, and nothing else. Prints what it will download and how large that is; returns
immediately if everything is installed. The environment is .venv in the checkout, or $JOBC_VENV.
Exit codes: 0 = ready; 1 = a message that explains what to do; 130 = interrupted, and the next call starts over.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements.txt"  # with the hashes of all artifacts, for each Python and platform
EXTRAS = {"demo": "trainer", "dev": "trainer,dev,site"}
INSTALLER = ["pip", "setuptools", "hatchling", "editables"]
INSTALLER += ["packaging", "pathspec", "pluggy", "tomli", "tomlkit", "trove-classifiers"]  # of hatchling
# Built here from source. They are installed first, by hash, because pip runs their code to find their dependencies.
FROM_SOURCE = {"demo": ["antlr4-python3-runtime"], "dev": ["antlr4-python3-runtime", "deepspeed"]}
# PyPI's torch for Linux is the CUDA build, several gigabytes; this index has CPU-only builds of 200 MB.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ENVIRONMENT = {**os.environ, "PIP_USER": "0"}  # with `user = true` in pip.conf, pip would fail here otherwise
PIP_FAILED = (
    "pip could not install the dependencies; its messages are above\n"
    "  without a direct network connection, set https_proxy for a proxy, or PIP_INDEX_URL for a mirror of PyPI\n"
    "  then run the same command again"
)


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    url: str
    index: str  # the only index to download it from; "" for the one that pip is configured to use


class Refusal(Exception):
    """Raised if the user has to do something first; the text describes it."""


def main(arguments: Sequence[str]) -> int:
    if sys.version_info < (3, 10):  # noqa: UP036 - whoever calls this file by hand may have an old one
        return refuse(f"jobc needs Python 3.10 or newer; {sys.executable} is {sys.version.split()[0]}")
    if len(arguments) != 1 or arguments[0] not in EXTRAS:
        return refuse("usage: python3 tools/bootstrap.py demo|dev")
    try:
        with locked():
            ensure(Path(os.environ.get("JOBC_VENV") or ROOT / ".venv").absolute(), arguments[0])
    except Refusal as refusal:
        return refuse(str(refusal))
    except KeyboardInterrupt:
        print("\ninterrupted: run the same command to start over", file=sys.stderr)
        return 130
    return 0


def refuse(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1


@contextmanager
def locked() -> Iterator[None]:
    """Allow only one bootstrap per checkout at a time: a second `make` waits for the first."""
    with PINS.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure(venv: Path, wanted: str) -> None:
    """Install the set `wanted` into venv. The record of the installation is written last."""
    record_path = venv / "jobc-bootstrap.json"
    record = read_record(record_path)
    key = record_key(venv)
    sets: list[str] = record.get("sets", []) if record.get("key") == key else []
    python = venv / "bin" / "python"
    if wanted in sets and works(python):
        return
    ours = bool(record.get("ours"))
    if ours and (not record.get("sets") or record.get("place") != str(venv) or not works(python)):
        shutil.rmtree(venv)  # incomplete, moved, or its Python no longer exists
    if not venv.exists() or not any(venv.iterdir()):
        check_ensurepip()
        ours = True
        venv.mkdir(parents=True, exist_ok=True)
        write_record(record_path, {"ours": True})
        print(f"creating {venv} with Python {sys.version.split()[0]} ({sys.executable})", flush=True)
        command = [sys.executable, "-m", "venv", str(venv)]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        if result.returncode != 0:
            raise Refusal(f"Python could not create a virtual environment:\n{result.stdout}{result.stderr}")
    else:
        check_foreign(venv, python)
        write_record(record_path, {"ours": ours})
    install(python, wanted)
    done = sorted({*sets, wanted, "demo"})
    write_record(record_path, {"ours": ours, "place": str(venv), "key": key, "sets": done})


def record_key(venv: Path) -> str:
    """Return a digest of everything that can make an environment stale: versions, paths, requested dependencies."""
    digest = hashlib.sha256()
    for part in (str(ROOT), str(venv)):
        digest.update(part.encode() + b"\0")
    for path in (ROOT / "pyproject.toml", PINS):
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def write_record(path: Path, record: Mapping[str, object]) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(record, indent=1) + "\n")
    beside.replace(path)


def works(python: Path) -> bool:
    """Return whether this is a Python >= 3.10 that has pip."""
    check = "import sys, importlib.util as u; sys.exit(sys.version_info < (3, 10) or u.find_spec('pip') is None)"
    try:
        return subprocess.run([str(python), "-I", "-c", check], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def check_ensurepip() -> None:
    """Raise Refusal if ensurepip is missing: some distributions omit it, and `python -m venv` then stops halfway."""
    if all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        return
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    raise Refusal(
        f"{sys.executable} (Python {version}) cannot create virtual environments, because it lacks ensurepip\n"
        f"  install it:    {install_command(version)}\n"
        "  or use another Python:                          make PYTHON=/path/to/python3 …\n"
        "  or create the environment yourself, with pip:   uv venv --seed .venv    (or: virtualenv .venv)\n"
        "  then run the same command again"
    )


def install_command(version: str) -> str:
    try:
        release = Path("/etc/os-release").read_text()
    except OSError:
        release = ""
    words = {
        word
        for line in release.splitlines()
        if line.startswith(("ID=", "ID_LIKE="))
        for word in line.split("=", 1)[1].strip('"').split()
    }
    if words & {"debian", "ubuntu"}:
        return f"sudo apt install python{version}-venv"
    if words & {"fedora", "rhel", "centos"}:
        return "sudo dnf install python3-pip"
    if words & {"suse", "opensuse"}:
        return f"sudo zypper install python{version.replace('.', '')}-pip"
    if "alpine" in words:
        return "sudo apk add python3 py3-pip"
    return "your system's package with Python's venv and ensurepip (Debian, Ubuntu: python3-venv)"


def check_foreign(venv: Path, python: Path) -> None:
    """Accept an environment that someone else created, but never install into, or overwrite, any other folder."""
    if not (venv / "pyvenv.cfg").exists():
        raise Refusal(f"{venv} is not empty and not a virtual environment; set JOBC_VENV to another folder")
    if not works(python):
        raise Refusal(f"{python} is not Python >= 3.10 with pip; remove {venv}, or set JOBC_VENV to another folder")


def install(python: Path, wanted: str) -> None:
    pins = read_pins()
    print("downloading the installer (pip, setuptools, hatchling) and the sources to build (about 7 MB)", flush=True)
    # In this order, because the setuptools in a new environment, if any, cannot build those packages without `wheel`.
    for names in (INSTALLER, FROM_SOURCE[wanted]):
        install_pins(python, [pin for name in names for pin in pins[name].values()], "-qq")
    packages = resolve(python, "--no-build-isolation", "-e", f"{ROOT}[{EXTRAS[wanted]}]")
    if packages is None:
        raise Refusal(PIP_FAILED)
    if any(is_cuda(package) for package in packages) and not has_nvidia_gpu():
        packages = with_cpu_torch(python, packages)
    with ThreadPoolExecutor(8) as pool:
        sizes = dict(zip(packages, pool.map(download_bytes, packages), strict=True))
    print(describe(sizes), flush=True)
    # requirements.txt has no hash for a torch build for one kind of device, such as 2.13.0+cpu, which comes from its
    # own index or is already on this machine.
    hashed = [package for package in packages if package.name != "torch" or "+" not in package.version]
    for package in sizes.keys() - set(hashed):
        source = ["--index-url", package.index] if package.index else []
        quiet = [] if is_big(sizes[package]) else ["-qq"]
        run_or_refuse(pip(python, *quiet, "--no-deps", *source, f"torch=={package.version}"))
    # Large packages first, with pip's own progress bar; the rest installs quickly.
    install_pins(python, [pin_of(pins, package) for package in hashed if is_big(sizes[package])])
    install_pins(python, [pin_of(pins, package) for package in hashed], "-qq")
    run_or_refuse(pip(python, "-qq", "--no-deps", "--no-build-isolation", "-e", str(ROOT)))


def read_pins() -> dict[str, dict[str, str]]:
    """Return normalized package name -> {version: its lines in requirements.txt, with a marker and hashes}."""
    pins: dict[str, dict[str, str]] = {}
    for pin in re.split(r"^(?=[^\s#])", PINS.read_text(), flags=re.MULTILINE)[1:]:
        name, version = pin.split()[0].split("==")
        pins.setdefault(name, {})[version] = pin
    return pins


def pin_of(pins: Mapping[str, Mapping[str, str]], package: Package) -> str:
    try:
        return pins[re.sub(r"[-_.]+", "-", package.name).lower()][package.version]
    except KeyError:
        raise Refusal(f"{PINS} has no hashes for {package.name} {package.version}") from None


def install_pins(python: Path, pins: Sequence[str], *options: str) -> None:
    """Install only artifacts with these hashes, without any other dependencies."""
    if pins:
        hashed = ["--require-hashes", "--no-deps", "--no-build-isolation", "-r", "/dev/stdin"]
        run_or_refuse(pip(python, *hashed, *options), "".join(pins))


def pip(python: Path, *arguments: str) -> list[str]:
    bar = "on" if sys.stdout.isatty() else "off"
    common = ["--disable-pip-version-check", "--no-input", "--progress-bar", bar]
    return [str(python), "-I", "-m", "pip", "install", *common, *arguments]


def run_or_refuse(command: Sequence[str], stdin: str = "") -> None:
    if subprocess.run(command, check=False, env=ENVIRONMENT, input=stdin, text=True).returncode != 0:
        raise Refusal(PIP_FAILED)


def resolve(python: Path, *arguments: str, index: str = "") -> list[Package] | None:
    """Return the packages that pip would add, without downloading or building any.

    None: pip failed and printed the reason to stderr
    index: query only this index, once and with a short timeout, and print nothing if it does not respond
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        without_hashes = re.sub(r" \\\n.*--hash=\S+", "", PINS.read_text())
        wheels = ["--only-binary", ":all:", "-c", "/dev/stdin"]
        command = pip(python, "-qq", "--dry-run", "--report", str(report), *wheels, *arguments)
        if index:
            command += ["--index-url", index, "--timeout", "5", "--retries", "0"]
        stderr = subprocess.DEVNULL if index else None
        done = subprocess.run(command, check=False, env=ENVIRONMENT, stderr=stderr, input=without_hashes, text=True)
        if done.returncode != 0:
            return None
        entries = json.loads(report.read_text())["install"]
    return [
        Package(entry["metadata"]["name"], entry["metadata"]["version"], entry["download_info"]["url"], index)
        for entry in entries
        if "dir_info" not in entry["download_info"]
    ]


def is_cuda(package: Package) -> bool:
    return package.name.startswith(("nvidia-", "cuda-", "triton"))


def has_nvidia_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def with_cpu_torch(python: Path, packages: list[Package]) -> list[Package]:
    """Return the same packages with torch for the CPU, or unchanged if that index does not respond."""
    torch = next(package for package in packages if package.name == "torch")
    resolved = resolve(python, "--no-deps", f"torch=={torch.version}", index=CPU_INDEX)
    if not resolved:
        print(
            f"no response from {CPU_INDEX}: using PyPI's torch, which is built for GPUs and much larger",
            flush=True,
        )
        return packages
    return [*resolved, *(package for package in packages if package is not torch and not is_cuda(package))]


def describe(sizes: Mapping[Package, int | None]) -> str:
    """Return one line with the number of packages and the megabytes to download."""
    if not sizes:
        return "to install: only jobc itself, because all packages that it needs are installed"
    total = sum(size or 0 for size in sizes.values())
    unknown = sum(size is None for size in sizes.values())
    line = f"to install: {len(sizes)} packages; to download: {total / 1e6:.0f} MB"
    if unknown:
        line += f" and {unknown} packages of unknown size"
    for package, size in sizes.items():
        if package.name == "torch":
            download = "of unknown size" if size is None else f"{size / 1e6:.0f} MB" if size else "on this machine"
            line += f" (torch {package.version}: {download})"
    return line + "\ninstalling …"


def is_big(size: int | None) -> bool:
    return size is None or size > 20_000_000


def download_bytes(package: Package) -> int | None:
    """Return the size of the file that pip would download: 0 if it is on this machine, or None if unknown."""
    if package.url.startswith("file:"):
        return 0
    request = urllib.request.Request(package.url, method="HEAD", headers={"User-Agent": "jobc-bootstrap"})
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, ValueError, TypeError):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
