#!/usr/bin/env bash
# submit.sh: run job hello by accelerate on two hosts, over ssh, and wait for its end.
# usage: submit.sh

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets and reads what is not set and read here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job hello /shared/runs

hosts=(
  node1
  node2
)

create_run ''
describe_run ''
prune_runs 0 ''
: "${HF_TOKEN:?export it first: the job gets it from this shell}"

# What the node gets on its standard input: nothing of it is ever an argument, which `ps` would show.
node_script() {
  printf 'export %s=%q\n' \
    JOBC_JOB_ID "$(basename -- "$run")" \
    JOBC_RUN_ID "$(basename -- "$run")" \
    JOBC_RUN_DIR "$run" \
    JOBC_ATTEMPT "$attempt" \
    JOBC_NODE_RANK "$1" \
    JOBC_HEAD_ADDR "${hosts[0]}" \
    JOBC_HEAD_PORT "$head_port" \
    JOBC_TIME_LIMIT_S 14400 \
    HF_TOKEN "$HF_TOKEN"
  printf 'exec bash %q %d train </dev/null\n' "$run/artifact/$attempt/node.sh" "$1"
}

# Below the kernel's ephemeral ports (32768 and up), another one for each run.
head_port=$((10000 + $(cksum <<<"$run" | cut -d ' ' -f 1) % 20000))

# stop_nodes: once, for a second signal kills. The pids stand in the run folder.
asked=''
stop_nodes() {
  local rank
  if [[ -n $asked ]]; then return; fi
  asked=yes
  for rank in "${!hosts[@]}"; do
    ssh -n -o BatchMode=yes "${hosts[rank]}" kill -s TERM "$(key "$run/state/node_0$rank" pid)" 2>/dev/null || true
  done
}
trap stop_nodes INT TERM HUP

unfinished='' # the folder is a run now; until here a failure removes it
for rank in "${!hosts[@]}"; do
  # setsid: Ctrl-C here must not cut the connection before the node has saved.
  node_script "$rank" | setsid ssh -o BatchMode=yes -o ConnectTimeout=10 "${hosts[rank]}" bash -s &
done
while [[ -n $(jobs -pr) ]]; do
  wait -n || stop_nodes
done

# ---- how it ended: the code that most deserves attention; a node that left no word counts as crashed

code=0
cd -- "$run/exit/$attempt" || exit 1
for wanted in 75 69 1 71 65; do
  if grep -qsx -- "$wanted" node_*; then code=$wanted; fi
done
for rank in "${!hosts[@]}"; do
  if [[ ! -s node_0$rank && $code == @(0|69|75) ]]; then code=1; fi
done
exit "$code"
