#!/usr/bin/env bash
# shell.sh: a shell, or one command, on a node of the cluster of job pool, in the environment of its ranks.
# usage: shell.sh [--run ID] [--node N] [-- COMMAND ARGUMENT…]
#   --run ID  beside that run; else beside the newest. Its cluster must be up: submit.sh, smoke.sh and preflight.sh start it
#   --node N  on its node N; else on node 0

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job pool runs

run_id='' node=0
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --node) need_value "$@" && node=$2 && shift ;;
    --) shift && break ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done
check_node "$node" "$nodes"

need_sky
[[ -z $managed ]] || die 1 'the machines of a managed job cannot be reached from here' 'backend.managed=false makes a cluster that can'
choose_run "$run_id"
at=$(storage_of "$run")
file=$(job_file "$run")
[[ -n $file && $(cluster_status "$(key_word "$file" cluster)") == UP ]] || die 1 "cluster $cluster is not up" 'submit.sh, smoke.sh or preflight.sh start it'
cluster=$(key_word "$file" cluster)
need_sent
# shellcheck disable=SC2016 # for the shell of the node
in_run='cd && cd -- "$1" && run=$PWD && . "artifact/$2/lib/run.sh"'
# Secrets go by standard input, into files that node.sh reads; no command line shows them.
for name in "${secret_variables[@]}"; do
  # shellcheck disable=SC2016 # for the shell of the node
  printf '%s' "${!name}" | on_node "$cluster" "$node" bash -c "$in_run"' && export "$3=$(cat)" && save_secret "$3"' - \
    "$at" "$(last_attempt "$run")" "$name"
done
code=0
# shellcheck disable=SC2016 # for the shell of the node
on_node "$cluster" "$node" bash -c 'cd && cd -- "$1" && export JOBC_RUN_DIR=$PWD && exec bash "artifact/$2/node.sh" "$3" shell "${@:4}"' - \
  "$at" "$(last_attempt "$run")" "$node" "$@" || code=$?
if ((${#secret_variables[@]})); then on_node "$cluster" "$node" bash -c "$in_run"' && forget_secrets "$run"' - "$at" "$(last_attempt "$run")" </dev/null; fi
exit "$code"
