#!/usr/bin/env bash
# stop.sh: end the live run of job hello for good, or that of --run ID.

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job hello runs

choose_live_run "${2:-}"
mark_stopped "$run"
signal_nodes TERM "$run"
wait_for_end 60 "$run"
