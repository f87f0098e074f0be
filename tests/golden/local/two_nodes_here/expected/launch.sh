#!/usr/bin/env bash
# launch.sh: what each node of job two does, from top to bottom. It is the same on every backend.
# usage: launch.sh [NODE_RANK] [train|smoke|check|preflight|shell] [COMMAND of shell…]
#   The engine or jobctl runs this file with the run folder in JOBC_RUN_DIR, the same path on all nodes.
#   jobctl is a Python program (jobctl source DIR unpacks its code); -I -S hides your packages and PYTHON… variables from it.
#   To start by hand with ssh or pdsh, run jobctl submit --only-prepare, then RUN/artifact/0/launch.sh NODE_RANK on each node, in any order.

# shellcheck disable=SC1090,SC1091,SC2016 # files that only the nodes have; '$JOBC_…' in the launch line, which jobctl replaces
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # restart with bash -p, which ignores inherited functions and shell options; in POSIX mode, no function can replace exec
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
rank=${1:-${JOBC_NODE_RANK:-0}} payload=${2:-train}
if [[ $rank == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi
failed() { printf 'error: python3 not found on %s\n  hint: install Python 3.10 or newer, or put it on PATH\n' "$(uname -n)" >&2 && exit 65; }

# ---- environment, in the project folder: PATH must contain python3 and the launcher, even without ~/.bashrc
project=${JOBC_PROJECT:-}
if [[ -z $project && -f $here/../../state/run ]]; then project=$(sed -n 's/^project=//p' "$here/../../state/run"); fi
cd -- "${project:-.}" 2>/dev/null || cd -- "$here"
export JOBC_PROJECT=${project:-$PWD}
python=$(type -P -- python3) || failed 127 python3
[[ $python == /* ]] || python=$PWD/$python

# jobctl prints `export` lines: this node's JOBC_ variables, the code folder.
variables=$("$python" -I -S "$here/jobctl" node "$rank" "$payload") || exit
eval "$variables"

# ---- rank variables
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=1 # CPU threads of each rank (keys: cpus, threads)
export PYTHONPATH=$JOBC_LIB${PYTHONPATH:+:$PYTHONPATH} # for the module jobc_trainer

# ---- the ranks: this launch line runs the command after `--` once per rank; jobctl records the exit codes
cd -- "$JOBC_CODE_DIR"
launch=(
  spawn # jobctl itself starts 2 processes
  --
  python3
  record.py
)
exec "$python" -I -S "$here/jobctl" launch "${#launch[@]}" "${launch[@]}" "$rank" "$payload" "${@:3}"
