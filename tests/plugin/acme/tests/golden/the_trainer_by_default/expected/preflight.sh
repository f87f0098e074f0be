#!/usr/bin/env bash
# preflight.sh: is this machine ready for job job?

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job job runs

JOBC_RUN_ROOT=$(dirname -- "$runs")
export JOBC_RUN_ROOT
exec bash "$artifact/node.sh" 0 preflight
