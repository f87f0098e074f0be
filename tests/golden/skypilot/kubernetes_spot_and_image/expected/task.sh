#!/usr/bin/env bash
# task.sh: one node of job kube on SkyPilot: finds its attempt of the run, starts node.sh, and ends as the worst node does.
# usage: task.sh [train|smoke|preflight]     from `run` of task.sky.yaml; without an argument what JOBC_PAYLOAD says

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
case ${1:-} in
  -h | --help) sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit ;;
esac
payload=${1:-${JOBC_PAYLOAD:-train}}
artifact=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
source "$artifact/lib/run.sh"
source "$artifact/lib/join_run.sh"

plan=1460eb98
job_name=kube
nodes=2
gpus=8
grace_s=60
run_root=/shared/runs

# ---- what SkyPilot says, in jobc's words

: "${SKYPILOT_NODE_IPS:?SkyPilot sets it in run; call sky launch task.sky.yaml}"
mapfile -t addresses <<<"$SKYPILOT_NODE_IPS"
count=${#addresses[@]}
if ((count != nodes)); then die 65 "SkyPilot gives this job $count nodes, it was compiled for $nodes" 'another number of nodes is another job: compile it'; fi
if [[ ${SKYPILOT_NUM_GPUS_PER_NODE:-0} != "$gpus" ]]; then
  die 65 "SkyPilot gives this job ${SKYPILOT_NUM_GPUS_PER_NODE:-0} GPUs on each node, it was compiled for $gpus" 'another number of GPUs is another job: compile it'
fi
export JOBC_NODE_RANK=$SKYPILOT_NODE_RANK
export JOBC_HEAD_ADDR=${addresses[0]}
export JOBC_NODE_LIST=${SKYPILOT_NODE_IPS//$'\n'/,}
export JOBC_JOB_ID=$SKYPILOT_TASK_ID # stays when a managed job is recovered
export JOBC_RUN_ID=${JOBC_RUN_ID:-$SKYPILOT_TASK_ID}
export JOBC_TIME_LIMIT_S=0
export JOBC_HEAD_PORT=0 # 0: node 0 chooses, and the others read it in the run folder

[[ $run_root == /* ]] || run_root=$HOME/${run_root#\~/}
export JOBC_RUN_ROOT=$run_root
export JOBC_RUN_DIR=$run_root/$job_name/$JOBC_RUN_ID
if [[ $payload != train ]]; then JOBC_RUN_DIR=$run_root/.checks/$JOBC_RUN_ID; fi
if [[ -n ${JOBC_FORK_OF:-} ]]; then JOBC_FORK_OF=$run_root/$job_name/$JOBC_FORK_OF; fi
run=$JOBC_RUN_DIR
project=$HOME/sky_workdir

ends_with=''
trap 'status=$?; status=${ends_with:-$status}; echo "jobc: node $JOBC_NODE_RANK ends with $status: $(meaning "$status")"' EXIT # for jobctl status

trap 'ends_with=75; exit 143' TERM # until there are ranks; not 75, by which a job would recover that ends because of another node

# ---- this node's attempt

try "create the folder $run" mkdir -p -- "$run"
sent=$project/${JOBC_RUN_ID}/code # from jobctl submit; by hand the code is in the working folder
# The code that was sent, before the others begin: the next launch on this cluster brings other code to the same place.
if [[ $JOBC_NODE_RANK == 0 && -d $sent && ! -e $run/code ]]; then
  rm -rf -- "$run/.code"
  try "copy the code to $run" cp -R -- "$sent" "$run/.code"
  try "move it to $run/code" mv -T -- "$run/.code" "$run/code"
fi
join_run "$JOBC_NODE_RANK" "$nodes" "$SKYPILOT_TASK_ID" 3 1800
init_from=$(key "$run/state/run" init_from)
if [[ -n $init_from ]]; then export JOBC_INIT_FROM=$init_from; fi

# ---- the ranks

node=''
trap 'asked=yes; [[ -z $node ]] || kill -s TERM "$node" 2>/dev/null || true' TERM # of sky cancel, or of a preemption
bash "$run/artifact/$attempt/node.sh" "$JOBC_NODE_RANK" "$payload" 2>&1 &
node=$!
code=0
wait "$node" || code=$?
while kill -0 "$node" 2>/dev/null; do # the trap ended the wait
  code=0
  wait "$node" || code=$?
done

# SkyPilot kills the other nodes at once when one fails; and a managed job is recovered when any of them ends with 69 or 75,
# whatever the others say. So node 0 alone says how the run ended, when all others have.
said=$code

# lacking_nodes: how many have left no word in this attempt and may still do so.
lacking_nodes() {
  local other file count=0
  for ((other = 0; other < nodes; other++)); do
    printf -v file 'node_%02d' "$other"
    if [[ ! -f $run/exit/$attempt/$file && -f $run/state/$file && $(node_status "$run/state/$file") != @(dead|silent) ]]; then count=$((count + 1)); fi
  done
  echo "$count"
}

if [[ $payload == train ]] && ((nodes > 1)); then
  until=$((SECONDS + grace_s + 20))
  while ((code == 0 ? JOBC_NODE_RANK == 0 : SECONDS < until)) && (($(lacking_nodes) > 0)); do sleep 0.5; done
  if ((code != 0 || JOBC_NODE_RANK == 0)); then
    if ((code == 0 && $(find "$run/exit/$attempt" -name 'node_*' | wc -l) < nodes)); then code=69; fi # one was lost
    code=$(worst_exit "$run" "$attempt" "$code" "$nodes")
    said=$code
  fi
  if ((JOBC_NODE_RANK == 0 && code != 0)); then
    sleep 3 # until what started the others is gone as well
  elif [[ -f $run/exit/$attempt/node_00 ]]; then
    said=0
  fi
fi
if [[ $payload != train ]] && ((code == 0 && JOBC_NODE_RANK == 0)); then rm -rf -- "$run"; fi
ends_with=$code
exit "$said"
