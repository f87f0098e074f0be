#!/usr/bin/env bash
# launch.sh: what each node of job opensora_k8s does, from top to bottom. It is the same on every backend.
# usage: launch.sh [NODE_RANK] [train|smoke|check|preflight|shell] [COMMAND of shell…]
#   The engine or jobctl runs this file with the run folder in JOBC_RUN_DIR.
#   jobctl is a Python program (jobctl source DIR unpacks its code); -I -S hides your packages and PYTHON… variables from it.

# shellcheck disable=SC1090,SC1091,SC2016 # files that only the nodes have; '$JOBC_…' in the launch line, which jobctl replaces
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # restart with bash -p, which ignores inherited functions and shell options; in POSIX mode, no function can replace exec
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
rank=${1:-${JOBC_NODE_RANK:-0}} payload=${2:-train}
if [[ $rank == @(-h|--help) ]]; then sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit; fi

# failed STATUS COMMAND [LINE]: jobctl prints why this node cannot start and records the reason for the other nodes.
failed() {
  trap - ERR EXIT
  type -P python3 >/dev/null || { printf 'error: python3 not found on %s\n  hint: install Python 3.10 or newer, or put it on PATH\n' "$(uname -n)" >&2 && exit 65; }
  python3 -I -S "$here/jobctl" node_failure "$rank" "$payload" "$@" || exit $? # in a trap, exit without a number returns the earlier status
  export JOBC_LACKS=1 # only preflight gets here: it runs its other checks, then fails
}

# ---- environment, in the project folder
project=${JOBC_PROJECT:-}
if [[ -z $project && -f $here/../../state/run ]]; then project=$(sed -n 's/^project=//p' "$here/../../state/run"); fi
cd -- "${project:-.}" 2>/dev/null || cd -- "$here"
export JOBC_PROJECT=${project:-$PWD}
if [[ -z ${JOBC_INSIDE:-} ]]; then # run this file again, in image docker://your-opensora-image:latest
  type -P python3 >/dev/null || failed 127 python3
  exec python3 -I -S "$here/jobctl" container "$rank" "$payload" "${@:3}"
fi
python=$(type -P -- python3) || failed 127 python3
[[ $python == /* ]] || python=$PWD/$python

# jobctl prints `export` lines: this node's JOBC_ variables, the code folder.
variables=$("$python" -I -S "$here/jobctl" node "$rank" "$payload") || exit
eval "$variables"

# ---- rank variables
export PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=1 # CPU threads of each rank (keys: cpus, threads)
# NCCL's flight recorder (torch 2.9 to 2.13): when a collective hangs, each rank dumps its latest collectives to
# RUN/logs/collectives_RANK, and `torchfrtrace --prefix collectives_ RUN/logs` compares the dumps.
export TORCH_FR_BUFFER_SIZE=${TORCH_FR_BUFFER_SIZE:-20000}
export TORCH_FR_DUMP_TEMP_FILE=${TORCH_FR_DUMP_TEMP_FILE:-$JOBC_RUN_DIR/logs/collectives_}
export TORCH_NCCL_DUMP_ON_TIMEOUT=${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}
export TORCH_NCCL_ASYNC_ERROR_HANDLING=${TORCH_NCCL_ASYNC_ERROR_HANDLING:-3} # default: the process exits after the dump
export COLOSSALAI_DIST_TIMEOUT=1800
export COLOSSALAI_MASTER_READY_TIMEOUT=600
export PYTHONPATH=$JOBC_LIB${PYTHONPATH:+:$PYTHONPATH} # for the module jobc_trainer

# ---- the ranks: this launch line runs the command after `--` once per rank; jobctl records the exit codes
cd -- "$JOBC_CODE_DIR"
cd -- /workspace/Open-Sora 2>/dev/null || failed 65 'cd /workspace/Open-Sora'
launch=(
  torchrun
  --nnodes=1
  --nproc-per-node=8
  --node-rank='$JOBC_NODE_RANK'
  --master-addr='$JOBC_HEAD_ADDR'
  --master-port='$JOBC_HEAD_PORT'
  --rdzv-conf=timeout=1800
  --log-dir='$JOBC_RUN_DIR/logs/torchrun'
  --
  python3
  scripts/diffusion/train.py
  configs/diffusion/train/demo.py
  --dataset.data-path
  modified_data.csv
)
exec "$python" -I -S "$here/jobctl" launch "${#launch[@]}" "${launch[@]}" "$rank" "$payload" "${@:3}"
