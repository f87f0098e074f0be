# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# join_bucket.sh: sourced after join_run.sh. storage.run=object: the run is in a bucket, and each node has a folder of its own beside it,
# made afresh for each attempt. What the two have to do with each other is depot.py's business.

# depot VERB [ARGUMENT…]: of the run in JOBC_RUN_DIR. Needs `artifact`, JOBC_STORE, JOBC_STORE_ENDPOINT, JOBC_STORE_REGION.
depot() {
  "$python" -I -S "$artifact/jobctl" depot "$1" "$(basename -- "${JOBC_RUN_DIR%/*}")/${JOBC_RUN_DIR##*/}" "${@:2}"
}

# join_bucket SUBMISSION MOST_REQUEUES TIMEOUT_S: as join_run does on shared storage: sets `run` and `attempt`, and returns when
# all nodes have come. In: JOBC_NODE_RANK, JOBC_NODES, JOBC_FORK_OF (a run id), `artifact`, `python`.
join_bucket() {
  local said init_from
  run=$JOBC_RUN_DIR
  said=$(mktemp)
  depot join "$1" "$2" "$3" "${JOBC_FORK_OF:-}" >"$said" & # so that a trap need not wait until all have come
  wait "$!" || exit
  attempt=$(key_number "$said" attempt)
  rm -- "$said"
  if [[ -z $attempt ]]; then exit; fi # it was stopped
  export JOBC_ATTEMPT=$attempt
  init_from=$(key "$run/state/run" init_from)
  describe_run "${init_from:+${run%/*}/$init_from}"
  prepare_attempt
  depot restore "$init_from" &
  wait "$!" || exit
}
