# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# records.sh: for engines whose runs lie on storage that this machine does not see. Here a run is a record: the artifact that
# was sent, what the engine made of it in state/job_ATTEMPT (its ids; exit and reason at the end), and what was seen of it.
# Sourced by engine.sh after run.sh, whose functions of the same name these replace. Engine.sh brings
#   ask_engine RUN     sets `state` of the job in `file`: ended, gone (nobody knows it any more), else a word for live
#   keep_evidence RUN  what it printed, before the engine forgets it; job_code RUN and job_reason RUN print how it ended
#   describe_live RUN, describe_gone RUN   the status of such a run in words
#   end_on_storage RUN   where it can: `CODE REASON` of a job that is gone, from what its nodes left

# record_job ATTEMPT KEY=VALUE…: what the engine made of that attempt of `run`. Exit and reason are empty until it has ended.
record_job() {
  local file=$run/state/job_$1
  printf '%s\n' "${@:2}" exit= reason= >"$file.$$" && mv -- "$file.$$" "$file"
}

# record_end FILE CODE REASON: a record_job that has ended.
record_end() {
  local text
  read_text "$1"
  { grep -vE '^(exit|reason)=' <<<"$text" && printf 'exit=%s\nreason=%s\n' "$(number "$2" 1)" "$(printable "${3//$'\n'/ }")"; } >"$1.$$" &&
    mv -- "$1.$$" "$1"
}

# job_file RUN: that of its newest attempt.
job_file() {
  local attempt
  attempt=$(numbered_files "$1/state" job_ | tail -n 1)
  if [[ -n $attempt ]]; then printf '%s' "$1/state/job_$attempt"; fi
}

# end_on_storage RUN: nothing, for most engines keep the end of a job for long.
end_on_storage() {
  return 1
}

# observe RUN: is it live? Sets file, state and code; when it has ended, keeps how, for the engine forgets.
observe() {
  local run=$1 found
  file=$(job_file "$1")
  code='' state=''
  if [[ -z $file ]]; then return 1; fi
  code=$(key_number "$file" exit)
  if [[ -n $code ]]; then return 1; fi
  if ! is_mine "$1"; then return 0; fi # the record of another user is only read: what is written there may be a link
  ask_engine "$1"
  if [[ $state == gone ]]; then
    if found=$(end_on_storage "$1"); then
      code=${found%% *}
      record_end "$file" "$code" "${found#* }"
    fi
    return 1
  fi
  if [[ $state != ended ]]; then return 0; fi
  keep_evidence "$1"
  code=$(job_code "$1")
  record_end "$file" "$code" "$(job_reason "$1")"
  return 1
}

is_live() {
  local file state code
  observe "$1"
}

# worst_code: of exit codes, one a line, the one that most deserves attention, as worst_exit; nothing when there is none.
worst_code() {
  local wanted codes
  codes=$(grep -E '^[0-9]+$' | sed -E '/^(0|65|69|71|75)$/! s/.*/1/') || return 0
  for wanted in 65 71 1 69 75 0; do
    if grep -qx -- "$wanted" <<<"$codes"; then
      echo "$wanted"
      return
    fi
  done
}

# ---- what run.sh says of runs that it sees

run_status() {
  local file state code
  if observe "$1"; then
    describe_live "$1"
  elif [[ -z $file ]]; then
    echo 'not submitted'
  elif [[ -n $code ]]; then
    ended "$1" "$code"
  else
    describe_gone "$1"
  fi
}

run_code() {
  key_number "$(job_file "$1")" exit
}
run_reason() {
  key "$(job_file "$1")" reason
}

# describe_reason RUN, describe_next RUN: why it has failed, and what goes on with it.
describe_reason() {
  local file state code
  if observe "$1" || [[ $code == @(0|130|) ]]; then return; fi
  printf '  reason: %s\n' "$(run_reason "$1")"
}
describe_next() {
  local file state code
  if observe "$1" || [[ $code != @(1|69|75) ]]; then return; fi
  printf '  go on with: %q --resume %q\n' "$artifact/submit.sh" "${1##*/}"
}

# wait_for_end SECONDS RUN: false when it is still live then.
wait_for_end() {
  local until=$((SECONDS + $1))
  while is_live "$2"; do
    if ((SECONDS >= until)); then return 1; fi
    sleep 1
  done
  echo "run ${2##*/}: $(run_status "$2")"
}

# wait_for_job RUN: until it has ended; the exit code of the job.
wait_for_job() {
  local code
  while is_live "$1"; do sleep 2; done
  fetch_news "$1"
  code=$(run_code "$1")
  echo "run ${1##*/}: $(run_status "$1")"
  return "${code:-1}"
}

# trial_id PAYLOAD: names the run folder of a check.
trial_id() {
  printf '%s-%s' "$1" "$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n')"
}
