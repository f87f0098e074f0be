#!/usr/bin/env bash
# submit.sh: queue all points of sweep sweep on Slurm as one job array; each point is a run of its own.
# usage: submit.sh [--wait] [--limit N] [--after ID|KIND:ID|singleton]…
#   --wait     wait for the end of all; the exit code is 0 when all have ended well, else 1
#   --after ID start after job ID has ended well; or afterany:ID, afternotok:ID, singleton
#   --limit N  at most N points at a time

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/run.sh"
this_job sweep+sweep runs

after=()
wait='' limit=2
while (($#)); do
  case $1 in
    --wait) wait=yes ;;
    --after) need_value "$@" && add_dependency "$2" && shift ;;
    --limit) need_value "$@" && limit=$2 && shift ;;
    -h | --help) show_help && exit ;;
    *) bad_option "$1" ;;
  esac
  shift
done
if [[ -n $limit && ! $limit =~ ^[1-9][0-9]*$ ]]; then die 2 "--limit takes a number, not $limit"; fi
if [[ -n $own_run ]]; then die 2 'this is the copy of a sweep that was submitted' 'call submit.sh of the artifact'; fi
if ! command -v sbatch >/dev/null; then die 1 "no sbatch on $(uname -n)" 'call this where you call sbatch: on a login node of the cluster'; fi

# The run folder of the sweep has links to the artifacts in the run folders of its points: points/0, points/1, …
create_run
trap 'discard_points; discard_unfinished' EXIT
mkdir -- "$run/points"
while IFS= read -r place; do
  element=$(find "$run/points" -type l | wc -l)
  made=$("$artifact/../../$place/submit.sh" --only-prepare --run-id "$(basename -- "$run")-$element") || exit
  ln -s -- "$made/artifact/0" "$run/points/$element"
done <"$artifact/points"
describe_run ''

elements=0-3${limit:+%$limit}
said=$(clean sbatch --parsable "${after[@]}" --array="$elements" --chdir="$run" --output="$run/points/%a/../../logs/slurm-%A_%a.log" \
  "$run/artifact/0/array.sbatch" "$run" 2>&1) || refuse "$said"
id=$(job_number "$said")
never=$(never_starts "$id")
if [[ -n $never ]]; then
  scancel "$id"
  refuse "$never"
fi
trap - EXIT # queued: all these folders are runs now
note_job "$id"
sweep=$run
while IFS= read -r element; do
  run=$(point_run "$sweep" "$element")
  note_job "${id}_$element"
done < <(elements "$sweep")
printf 'sweep %s in %q, job array %s_[%s]\n' "$(basename -- "$sweep")" "$sweep" "$id" "$elements"
printf '  status: %q\n  stop:   %q\n' "$sweep/artifact/0/status.sh" "$sweep/artifact/0/stop.sh"
if [[ -z $wait ]]; then exit; fi
until all_ended "$sweep"; do sleep 2; done
jobctl status --run "$sweep"
