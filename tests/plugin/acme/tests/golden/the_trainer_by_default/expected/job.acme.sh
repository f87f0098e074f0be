#!/usr/bin/env bash
#ACME --name=job
#ACME --nodes=1
#ACME --queue=slow
#ACME --placement=spread
#ACME --labels=labels.acme.yaml

# acme starts this file on every node, with the variables of jobctl submit and its own.
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # ignore the calling shell's options and functions
set -euo pipefail
port=0
if ((port == 0)); then port=$((20000 + ACME_JOB_ID % 12000)); fi

export JOBC_JOB_ID=$ACME_JOB_ID
export JOBC_NODE_RANK=$ACME_RANK
export JOBC_HEAD_ADDR=${ACME_HOSTS%% *}
export JOBC_HEAD_PORT=$port
exec bash "$JOBC_RUN_DIR/artifact/$JOBC_ATTEMPT/launch.sh" "$ACME_RANK" "${JOBC_PAYLOAD:-train}"
