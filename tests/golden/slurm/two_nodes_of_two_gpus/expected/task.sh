#!/usr/bin/env bash
# task.sh: one task of job two on Slurm: says what Slurm knows in jobc's words, then starts node.sh.
# usage: srun … task.sh RUN_DIR ATTEMPT train|smoke|preflight|shell [COMMAND…]

if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
: "${SLURM_NODEID:?srun starts this file; jobctl submit --here runs the job in the allocation that this shell is in}"
artifact=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)

if [[ $3 == train && $SLURM_PROCID == 0 ]]; then # for jobctl stop of a run in somebody's allocation (--here)
  { echo "$SLURM_JOB_ID.$SLURM_STEP_ID" >"$1/state/step_$2"; } 2>/dev/null || true
fi
unset JOBC_INIT_FROM
export JOBC_TIME_LIMIT_S=0 # Slurm keeps the time
export JOBC_JOB_ID=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
export JOBC_RUN_DIR=$1
export JOBC_RUN_ID=${1##*/}
export JOBC_ATTEMPT=$2
export JOBC_NODE_RANK=$SLURM_NODEID
export JOBC_NODE_LIST=$SLURM_STEP_NODELIST
export JOBC_HEAD_ADDR=$SLURM_STEP_NODELIST # its first host: a container has no scontrol that would say it
while [[ $JOBC_HEAD_ADDR =~ ^([^],[]*)\[([^],-]+)[^]]*\](.*)$ ]]; do
  JOBC_HEAD_ADDR=${BASH_REMATCH[1]}${BASH_REMATCH[2]}${BASH_REMATCH[3]}
done
JOBC_HEAD_ADDR=${JOBC_HEAD_ADDR%%,*}
export JOBC_HEAD_PORT=0 # 0: node 0 chooses, and the others read it in the run folder
init_from=$(sed -n 's/^init_from=//p' "$1/state/run" 2>/dev/null || true)
if [[ -n $init_from ]]; then export JOBC_INIT_FROM=$init_from; fi

if [[ $3 == preflight ]]; then printf 'name\t%s\n' "$SLURMD_NODENAME"; fi # for the table
exec bash "$artifact/node.sh" "$SLURM_NODEID" "${@:3}"
