#!/usr/bin/env bash
# task.sh: one pod of job Placed.Job: finds its attempt of the run in the run folder, then becomes node.sh.
# usage: task.sh [train|smoke|preflight|shell|init] [COMMAND of shell…]     in a pod; without an argument what JOBC_PAYLOAD says
#   The ConfigMap is at /jobc/files. PID 1 becomes the supervisor of the node, which gets the kubelet's SIGTERM.

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
# Until the supervisor takes over: a signal does nothing to PID 1 by itself.
trap '[[ ! -e ${JOBC_RUN_DIR:-}/control/STOP ]] || exit 0; exit 75' TERM

case ${1:-} in
  -h | --help) sed -n '2,$ { /^#/!q; s/^# \{0,1\}//p }' "$0" && exit ;;
esac
payload=${1:-$JOBC_PAYLOAD}
image_folder=$PWD

# ---- the artifact; a key of a ConfigMap has no slash, so -- stands for it

artifact=/jobc/artifact
if [[ -d /jobc/files && ! -d $artifact/lib ]]; then
  for file in /jobc/files/*; do
    key=${file##*/}
    path=$artifact/${key//--//}
    [[ -d ${path%/*} ]] || mkdir -p -- "${path%/*}"
    if [[ $key == jobctl ]]; then # bash drops the NUL bytes of what it reads
      cp -- "$file" "$path"
      continue
    fi
    mapfile -d '' text <"$file" # all of it, without a process for each
    printf '%s' "${text[*]}" >"$path"
  done
  chmod +x "$artifact"/*.sh
fi
source "$artifact/lib/run.sh"
source "$artifact/lib/join_run.sh"

# ---- what the pod knows, in jobc's words

job_name=Placed.Job
nodes=2
export JOBC_NODE_LIST='placed-job-e231293b-[0-1]'
export HOME=/jobc/artifact # a user that the image does not know has / as its home
export JOBC_RUN_ID=${JOBC_RUN_ID:-kubernetes-${JOBC_JOB_UID%%-*}}
export JOBC_RUN_DIR=$JOBC_RUN_ROOT/$job_name/$JOBC_RUN_ID
if [[ $payload == @(smoke|preflight) ]]; then JOBC_RUN_DIR=$JOBC_RUN_ROOT/.checks/$JOBC_RUN_ID; fi
if [[ -n $JOBC_FORK_OF ]]; then JOBC_FORK_OF=$JOBC_RUN_ROOT/$job_name/$JOBC_FORK_OF; fi
project=$image_folder

# wait_for_name NAME SECONDS: of node 0; it appears in the cluster's DNS some tenths of a second after its pod.
wait_for_name() {
  local until=$((SECONDS + $2)) next=$((SECONDS + 10))
  lost=("the name of node 0 is not found: $1" 'has node 0 a pod that runs? is the Service there, and the cluster DNS well?')
  while type -P getent >/dev/null && ! getent hosts "$1" >/dev/null; do
    if ((SECONDS >= until)); then return 1; fi
    if ((SECONDS >= next)); then echo "jobc: waiting for the name of node 0: $1" && next=$((SECONDS + 10)); fi
    sleep 1
  done
}

# ---- the init container: does this pod see node 0, and can it write where the runs are? It waits for no pod but that of node 0.

if [[ $payload == init ]]; then
  if [[ $JOBC_PAYLOAD != train ]]; then exit; fi # jobctl preflight and jobctl smoke find out more
  wait_for_name "$JOBC_HEAD_ADDR" 1800 || die 71 "${lost[@]}"
  if ! type -P python3 >/dev/null; then
    echo 'jobc: not checked, for the image has no python3 on its PATH'
    exit
  fi
  export JOBC_NODES=$nodes
  checks=(
    python3 -B "$artifact/jobctl" node_checks --apart
    --procs=4
    --gpus=0 # an init container has none
    --port="$JOBC_HEAD_PORT"
    --run-root="$JOBC_RUN_ROOT"
    --interface=''
  )
  "${checks[@]}" 2>&1 | sed "s/^/$HOSTNAME: /" | jobctl table "$HOSTNAME"
  exit
fi

# ---- a shell

if [[ $payload == shell ]]; then
  if [[ -d $JOBC_RUN_DIR/artifact ]]; then
    artifact=$JOBC_RUN_DIR/artifact/$(last_attempt "$JOBC_RUN_DIR")
  else
    JOBC_RUN_DIR=''
    export JOBC_HEAD_ADDR=127.0.0.1 # there is no node 0 to ask
    if [[ $PWD == / ]]; then mkdir -p -- "$JOBC_RUN_ROOT" && cd -- "$JOBC_RUN_ROOT"; fi
  fi
  exec bash "$artifact/node.sh" "$JOBC_NODE_RANK" shell "${@:2}"
fi

# ---- this node's attempt

join_run "$JOBC_NODE_RANK" "$nodes" "$JOBC_JOB_UID" 3 1800
wait_for_name "$JOBC_HEAD_ADDR" 60 || fail 71 "${lost[@]}"
init_from=$(key "$run/state/run" init_from)
if [[ -n $init_from ]]; then export JOBC_INIT_FROM=$init_from; fi

# A check says its code and ends well, so that no pod is deleted with its output; the run folder goes when all are good.
if [[ $payload == @(smoke|preflight) ]]; then
  code=0
  bash "$run/artifact/$attempt/node.sh" "$JOBC_NODE_RANK" "$payload" 2>&1 || code=$?
  if ((code == 0)); then touch -- "$run/state/.good_$JOBC_NODE_RANK"; fi
  for ((tries = 30; JOBC_NODE_RANK == 0 && tries > 0; tries--)); do
    if (($(find "$run/state" -name '.good_*' | wc -l) == nodes)); then rm -rf -- "$run" && break; fi
    sleep 1
  done
  echo "jobc: exit of the payload: $code"
  exit
fi
if ((JOBC_NODE_RANK == 0)); then echo "command=jobctl submit --resume $JOBC_RUN_ID" >"$run/state/resume"; fi
exec bash "$run/artifact/$attempt/node.sh" "$JOBC_NODE_RANK" train
