# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# records.sh: for engines whose runs lie on storage that this machine does not see. Here a run is a record: the artifact that
# was sent, what the engine made of it in state/job_ATTEMPT (its ids; exit and reason at the end), and what was seen of it.
# Sourced by engine.sh after run.sh, whose functions of the same name these replace. What the engine knows of a job, and how
# it ended, is asked and kept by jobctl (engines/records.py).

# record_job ATTEMPT KEY=VALUE…: what the engine made of that attempt of `run`. Exit and reason are empty until it has ended.
record_job() {
  local file=$run/state/job_$1
  printf '%s\n' "${@:2}" exit= reason= >"$file.$$" && mv -- "$file.$$" "$file"
}

# job_file RUN: that of its newest attempt.
job_file() {
  local attempt
  attempt=$(numbered_files "$1/state" job_ | tail -n 1)
  if [[ -n $attempt ]]; then printf '%s' "$1/state/job_$attempt"; fi
}

# observe RUN: is it live? Sets file, state (live, ended, gone; nothing without a record) and engine_says, the engine's word.
observe() {
  local said
  file=$(job_file "$1")
  said=$(jobctl status --run "$1" --field engine) || exit
  read -r state engine_says <<<"$said" || true
  [[ $state == live ]]
}

is_live() {
  local file state engine_says
  observe "$1"
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
