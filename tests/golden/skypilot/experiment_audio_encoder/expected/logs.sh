#!/usr/bin/env bash
# logs.sh: what a run of job audio_encoder printed.
# usage: logs.sh [--run ID] [--node N | --rank N] [--follow]
#   --run ID  that run; else the newest
#   --node N  the console of node N; else of all nodes, as SkyPilot merges them
#   --rank N  the output of global rank N, from the storage of its cluster
#   --follow  go on until the run ends

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job audio_encoder runs

run_id='' node='' rank='' follow=--no-follow
while (($#)); do
  case $1 in
    --run) need_value "$@" && run_id=$2 && shift ;;
    --node) need_value "$@" && node=$2 && shift ;;
    --rank) need_value "$@" && rank=$2 && shift ;;
    --follow | -f) follow=--follow ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done
if [[ ! $node$rank =~ ^[0-9]*$ ]]; then die 2 '--node and --rank take a number'; fi

choose_run "$run_id"
file=$(job_file "$run")
[[ -n $file ]] || die 1 "run $(basename -- "$run") was not sent to SkyPilot" 'submit.sh sends one'

if [[ -n $rank ]]; then
  at=$((10#$rank / 4))
  log=$(storage_of "$run")/logs/rank_$(printf '%02d' "$((10#$rank))").log
  if [[ $log == /* && -f $log ]]; then exec cat -- "$log"; fi
  need_sky
  [[ -z $managed ]] || die 1 'the machines of a managed job cannot be reached from here' 'logs.sh without --rank shows what its nodes print'
  [[ -n $(cluster_status "$(key_word "$file" cluster)") ]] || die 1 "no log of rank $rank: $(where_it_is "$file") is gone" "$(where_its_end_is)"
  words=(tail -n +1)
  if [[ $follow == --follow ]]; then words+=(-f); fi
  on_node "$(key_word "$file" cluster)" "$at" "${words[@]}" -- "$log"
  exit
fi

kept=$(job_log "$run")
if observe "$run" || [[ -f $kept && ! -s $kept ]]; then
  need_sky
  sky_logs "$run" "$follow"
elif [[ -f $kept ]]; then
  cat -- "$kept"
else
  die 1 "SkyPilot has no output of $(where_it_is "$file") any more" 'look while its cluster is up: by itself it goes when it is idle (backend.autostop)'
fi | if [[ -n $node ]]; then { grep "^$((10#$node)): " || true; }; else cat; fi
