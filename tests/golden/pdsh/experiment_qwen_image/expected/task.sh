#!/usr/bin/env bash
# task.sh: one node of job qwen_image: says in jobc's words what the hosts know, then starts node.sh.
# usage: task.sh RUN_DIR ATTEMPT HOST|RANK start|train|smoke|preflight|shell|signal [WORD…]
#   HOST    as it stands in hosts.txt; its place there is the node rank
#   start   train in the background, without this connection; returns when it is up
#   signal  send this node's supervisor QUIT or KILL

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
artifact=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
source "$artifact/lib/run.sh"
nodes=2

run=$1 attempt=$2 rank=$3 payload=$4
if ! is_number "$rank"; then
  rank=$(grep -m 1 -nxF -- "$3" "$artifact/hosts.txt" | cut -d : -f 1) || die 2 "$3 is not in hosts.txt"
  rank=$((rank - 1))
fi
state=$run/state/node_$(printf '%02d' "$rank")

if [[ $payload == signal ]]; then
  jobctl stop --run "$run" --node "$rank" --signal "$5"
  exit
fi

unset JOBC_INIT_FROM
JOBC_RUN_ID=$(basename -- "$run")
head=$(head -n 1 -- "$artifact/hosts.txt")
export JOBC_RUN_ID JOBC_JOB_ID=$JOBC_RUN_ID JOBC_RUN_DIR=$run JOBC_ATTEMPT=$attempt JOBC_NODE_RANK=$rank
export JOBC_HEAD_ADDR=${head##*@}
JOBC_NODE_LIST=$(head -n "$((nodes < 4 ? nodes : 4))" -- "$artifact/hosts.txt" | paste -s -d ,)
if ((nodes > 4)); then JOBC_NODE_LIST+=,…; fi
export JOBC_NODE_LIST
export JOBC_HEAD_PORT=0 # 0: node 0 chooses, and the others read it in state/head
export JOBC_TIME_LIMIT_S=0
init_from=$(key "$run/state/run" init_from)
if [[ -n $init_from ]]; then export JOBC_INIT_FROM=$init_from; fi

if [[ $payload != start ]]; then exec bash "$artifact/node.sh" "$rank" "$payload" "${@:5}"; fi

log=$run/logs/node_$(printf '%02d' "$rank").log
setsid bash "$artifact/node.sh" "$rank" train </dev/null >/dev/null 2>>"$log" &
node=$!
until [[ $(key_number "$state" attempt) == "$attempt" ]]; do
  kill -0 "$node" 2>/dev/null || break
  sleep 0.1
done
if [[ $(key_number "$state" attempt) == "$attempt" && -n $(key_number "$state" pid) ]]; then exit; fi # up
code=0
wait "$node" || code=$? # it writes how it ended before it prints why
tail -n 20 -- "$log"
exit "$code"
