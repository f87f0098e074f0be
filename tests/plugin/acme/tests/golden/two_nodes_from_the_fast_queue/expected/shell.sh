#!/usr/bin/env bash
# shell.sh: a shell, or one command, in the environment of job hello: shell.sh [COMMAND…]

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job hello runs

export JOBC_RUN_DIR=''
exec bash "$artifact/node.sh" 0 shell "$@"
