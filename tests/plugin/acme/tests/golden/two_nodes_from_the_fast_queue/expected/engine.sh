# shellcheck shell=bash disable=SC2154 # run.sh sets what is not set here
# engine.sh: what job hello asks acme: replaces functions of run.sh of the same name.
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
