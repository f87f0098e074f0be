# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# sweep.sh: all points of a sweep of sweep. Its run folder has links to the artifacts in theirs: points/0, points/1, …
# Sourced by engine.sh.

# elements SWEEP: the numbers of its points, one a line; not those whose runs have been removed, and no link to a run that is
# not called SWEEP-NUMBER or does not lie beside the runs of this sweep.
elements() {
  local element point
  while IFS= read -r element; do
    point=$(point_run "$1" "$element")
    if is_run "$point" && [[ ${point##*/} == "${1##*/}-$element" && ${point%/*/*} -ef ${runs%/*} && $point != *[$control$'\n']* ]]; then echo "$element"; fi
  done < <(LC_ALL=C find "$1/points" -mindepth 1 -maxdepth 1 -type l -xtype d -regextype posix-extended -regex '.*/(0|[1-9][0-9]{0,17})' -printf '%f\n' | sort -n)
}

# point_run SWEEP ELEMENT: its run folder.
point_run() {
  local copy
  copy=$(readlink -- "$1/points/$2")
  printf '%s' "${copy%/artifact/*}"
}

# look_at_array SWEEP: asks Slurm once; job_state knows the answers. False when Slurm does not answer.
look_at_array() {
  local said id state
  hear ask_squeue "$(job_id "$(job_file "$1")")" '%i %T %r' --array || return
  states=()
  while read -r id state; do
    if [[ -n $id ]]; then states["$id"]=$state; fi
  done <<<"$said"
}

# all_ended SWEEP
all_ended() {
  local element
  look_at_array "$1" || return
  while IFS= read -r element; do
    if is_live "$(point_run "$1" "$element")"; then return 1; fi
  done < <(elements "$1")
}

# discard_points: the run folders of a sweep that was not queued.
discard_points() {
  local element point
  while IFS= read -r element; do
    point=$(point_run "$run" "$element")
    forget_secrets "$point"
    chmod -R u+w -- "$point"
    rm -rf -- "$point"
  done < <(elements "$run")
}
