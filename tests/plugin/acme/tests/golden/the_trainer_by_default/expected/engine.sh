# shellcheck shell=bash disable=SC2154 # run.sh sets what is not set here
# engine.sh: what job job asks acme: replaces functions of run.sh of the same name.
# Sourced by this_job. The number of a run's job is in RUN/state/acme_job.

# acme_state RUN: waiting, running or gone.
acme_state() {
  local number=''
  read -r number <"$1/state/acme_job" || true
  if [[ $number =~ ^[0-9]+$ ]]; then acme state "$number"; else echo gone; fi
} 2>/dev/null

# is_live RUN: it waits or runs.
is_live() {
  [[ $(acme_state "$1") != gone ]]
}

# run_status RUN: in words.
run_status() {
  local state
  state=$(acme_state "$1")
  if [[ $state != gone && -e $1/control/STOP ]]; then
    echo 'stopping'
  elif [[ $state == waiting ]]; then
    echo "queued as job $(<"$1/state/acme_job")"
  elif [[ $state == running ]]; then
    echo "running as job $(<"$1/state/acme_job")"
  elif [[ -f $1/state/node_00 ]]; then
    ended "$1" "$(run_code "$1")"
  elif [[ -e $1/control/STOP ]]; then
    echo 'stopped by stop.sh before it started'
  else
    echo 'failed: acme does not have its job any more, and no node has started'
  fi
}
