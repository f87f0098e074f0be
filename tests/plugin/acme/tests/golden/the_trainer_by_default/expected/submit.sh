#!/usr/bin/env bash
# submit.sh: queue job job with acme and wait for its end. No options.

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job job runs

code_kind=lib
code_root=.

create_run
if [[ $code_kind == snapshot ]]; then snapshot_code "$project/$code_root"; fi
describe_run ''

JOBC_RUN_ID=$(basename -- "$run")
export JOBC_RUN_ID JOBC_RUN_DIR=$run JOBC_ATTEMPT=$attempt JOBC_TIME_LIMIT_S=0
exec acme submit "$run/artifact/$attempt/job.acme.sh"
