#!/usr/bin/env bash
# preflight.sh: is this machine ready for job opensora_k8s? A table of checks, those that failed first; starts nothing.
# usage: preflight.sh
#   exit 0 = ready, 1 = some check failed

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job opensora_k8s /mnt/opensora/runs

case ${1:-} in
  '') ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

JOBC_RUN_ROOT=$(dirname -- "$runs")
export JOBC_RUN_ROOT JOBC_RUN_DIR=$own_run
source "$artifact/lib/jobc_trainer/rt/table.sh"
bash "$artifact/node.sh" 0 preflight 2>&1 | sed "s/^/$(uname -n): /" | table "$(uname -n)"
