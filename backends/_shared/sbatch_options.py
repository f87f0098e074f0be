"""sbatch's options, for the keys that pass options to it: backend slurm's `extra` and SkyPilot's `sbatch_options`.

Source: src/common/slurm_opt.c in releases XX.YY.0 from 22.05 to 25.11 (github.com/SchedMD/slurm), options with a
set_func or set_func_sbatch; letters from the sbatch manual. Pyxis 0.24: spank_opts in its args.c
(github.com/NVIDIA/pyxis)
"""

from collections.abc import Collection, Mapping, Sequence

from ...compiler.diagnostics.diagnostic import nearest


def keys_by_option(options: Mapping[str, str]) -> dict[str, str]:
    """Return option -> key for a mapping from keys to options separated by spaces."""
    return {option: key for key, names in options.items() for option in names.split()}


# Options that only some versions from 22.05 to 25.11 have -> the first version with the option (SINCE) or without it
# (GONE).
SINCE: Mapping[str, str] = keys_by_option({
    "23.02": "container-id extra tres-per-task",
    "23.11": "tres-bind",
    "24.05": "resv-ports segment stepmgr",
    "24.11": "oom-kill-step",
    "25.05": "external",
    "25.11": "consolidate-segments resources spread-segments",
})  # fmt: skip
GONE: Mapping[str, str] = {"power": "24.05"}
OPTIONS = frozenset((
    "account", "acctg-freq", "array", "batch", "bb", "bbf", "begin", "chdir", "cluster", "cluster-constraint",
    "clusters", "comment", "constraint", "container", "context", "contiguous", "core-spec", "cores-per-socket",
    "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot", "dependency", "distribution", "error",
    "exclude", "exclusive", "export", "export-file", "extra-node-info", "get-user-env", "gid", "gpu-bind",
    "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "help", "hint",
    "hold", "ignore-pbs", "input", "job-name", "kill-on-invalid-dep", "licenses", "mail-type", "mail-user",
    "mcs-label", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "nice", "no-kill",
    "no-requeue", "nodefile", "nodelist", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node",
    "ntasks-per-socket", "ntasks-per-tres", "open-mode", "output", "overcommit", "oversubscribe", "parsable",
    "partition", "power", "prefer", "priority", "profile", "propagate", "qos", "quiet", "reboot", "requeue",
    "reservation", "signal", "sockets-per-node", "spread-job", "switches", "tasks-per-node", "test-only",
    "thread-spec", "threads-per-core", "time", "time-min", "tmp", "uid", "usage", "use-min-nodes", "verbose",
    "version", "wait", "wait-all-nodes", "wckey", "wrap",
    *SINCE,
))  # fmt: skip
# Options of the Pyxis plugin, if the site has it. A site's other SPANK plugins may add more.
PYXIS = frozenset(
    f"container-{name}"
    for name in (
        "image", "mounts", "workdir", "name", "save", "mount-home", "remap-root", "entrypoint", "entrypoint-log",
        "writable", "readonly", "env", "unshare",
    )
) | {"no-container-mount-home", "no-container-remap-root", "no-container-entrypoint"}  # fmt: skip
# Also options of other SPANK plugins in public job scripts: Shifter (github.com/NERSC/shifter, wlm_integration/slurm;
# docs.nersc.gov for --module) and SageMaker HyperPod (--auto-resume).
PLUGINS = PYXIS | {"auto-resume", "ccm", "image", "module", "volume"}
CONTAINER = PYXIS | {"container", "container-id"}  # options for containers; the last two are Slurm's own (OCI)
LETTERS: Mapping[str, str] = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus", "H": "hold",
    "J": "job-name", "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit", "Q": "quiet", "S": "core-spec",
    "V": "version", "W": "wait", "a": "array", "b": "begin", "c": "cpus-per-task", "d": "dependency", "e": "error",
    "h": "help", "i": "input", "k": "no-kill", "m": "distribution", "n": "ntasks", "o": "output", "p": "partition",
    "q": "qos", "s": "oversubscribe", "t": "time", "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip
EXCLUSIVE = ("exclusive", "mcs", "oversubscribe", "topo", "user")  # values of --exclusive, case-insensitive


AFTER = ("after", "afterany", "afterburstbuffer", "aftercorr", "afternotok", "afterok")  # kinds of --dependency


def dependency_value(after: Sequence[str]) -> str:
    """Return queue.after as a value for --dependency.

    All dependencies must be satisfied. A plain ID means that the job must succeed.
    """
    ids = [entry for entry in after if ":" not in entry and entry != "singleton"]
    others = [entry for entry in after if entry not in ids]
    return ",".join([*([":".join(["afterok", *ids])] if ids else []), *others])


def options_with_prefix(option: str, known: Collection[str] = OPTIONS | PYXIS) -> list[str]:
    """Return the options that start with an unknown name. getopt_long(3) accepts a unique prefix as an abbreviation."""
    return sorted(name for name in known if name.startswith(option))


def similar_options(option: str, known: Collection[str] = OPTIONS | PYXIS) -> list[str]:
    """Return the options similar to an unknown name, most similar first, or [] if there are none.

    The first letter of a mistyped name is usually right, and some users type only the first word: `mial` means
    mail-type or mail-user, not signal.
    """
    name = option.lstrip("-")
    if name in LETTERS:
        return [LETTERS[name]]
    if name in known:
        return [name]
    near = nearest(name, sorted(known), len(known))
    alike = [other for other in near if other[0] == name[:1]]
    first_words = {other.partition("-")[0] for other in known if "-" in other and other[0] == name[:1]}
    begun = [other for word in nearest(name, first_words, 1) for other in sorted(known) if other.startswith(f"{word}-")]
    return alike[:1] or begun or near[:1]
