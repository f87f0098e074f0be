#!/usr/bin/env bash
# status.sh: how the newest run of job job is doing, or that of --run ID.

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/jobc_trainer/rt/run.sh"
this_job job runs

choose_run "${2:-}"
echo "run $(basename -- "$run"): $(run_status "$run")"
while IFS= read -r file; do describe_node "$file" && echo; done < <(node_files "$run")
