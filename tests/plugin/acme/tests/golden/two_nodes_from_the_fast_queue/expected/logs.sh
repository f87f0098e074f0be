#!/usr/bin/env bash
# logs.sh: what node 0 of the newest run of job hello printed, or of --run ID.

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job hello runs

choose_run "${2:-}"
exec cat -- "$run/logs/node_00.log"
