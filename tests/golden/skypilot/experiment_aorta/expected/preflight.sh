#!/usr/bin/env bash
# preflight.sh: will SkyPilot take job aorta, and are the nodes that it would get alike and ready? Starts no training.
# usage: preflight.sh [--queue-only]
#   --queue-only  only ask SkyPilot whether it would launch the job, and what it would cost; start no machines
#   exit 0 = ready, 1 = some check failed. Machines that it starts stay, for the job: stop.sh --down ends them

# shellcheck disable=SC1091,SC2034,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job aorta runs

only=''
case ${1:-} in
  '') ;;
  --queue-only) only=yes ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

need_sky
need_sent
words=()
for name in "${secret_variables[@]}"; do words+=(--secret "$name"); done
if said=$(cd -- "$artifact" && sky launch --dryrun --yes --cluster "$cluster" "${words[@]}" task.sky.yaml 2>&1); then
  echo 'ok    SkyPilot would launch the job'
  grep -E '^ *[A-Za-z(].*[0-9]' <<<"$said" | sed 's/^/      /' || true
else
  printf 'FAIL  SkyPilot refuses the job: %s\n' "$(tail -n 3 <<<"$said" | paste -sd ' ')"
  exit 1
fi
if [[ -n $only ]]; then exit; fi
mapfile -t ranks < <(seq 0 1)
trial preflight | jobctl table "${ranks[@]}"
