# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# old_runs.sh: part of run.sh, used by clean.sh. Which runs of a job may go, and removing them.

# may_still_run RUN: why it may not be removed yet, in words; nothing when every node of it has ended.
may_still_run() {
  local file last started=''
  if is_live "$1"; then
    echo "it is live$(live_elsewhere "$1")"
    return
  fi
  last=$(last_attempt "$1")
  while IFS= read -r file; do
    if [[ $(key_number "$file" attempt) == "$last" ]]; then started=yes; fi
    if [[ $(node_status "$file") == silent ]] && ! { [[ $(key "$file" host) == "$(uname -n)" ]] && is_silent "$file" 86400; }; then
      echo "node ${file##*_} $(describe_place "$file") has left no word that it ended, and may be running there"
      return
    fi
  done < <(node_files "$1")
  if [[ -z $started && ! -e $1/control/STOP ]]; then echo "attempt $last of it is being started, or never was"; fi
}

# folders_of RUN: those that go and stay with it, one a line.
folders_of() {
  printf '%s\n' "$1"
}

# in_words RUN: how it ended.
in_words() {
  run_status "$1"
}

# find_old_runs KEEP: sets `old`, the finished runs of this job but the KEEP newest, and `spared`, lines that say which
# of the others stay and why. Whatever jobc did not make, or not completely, is in neither.
find_old_runs() {
  local found part said reason keep=$1 finished=()
  old=() spared=()
  while IFS= read -r -d '' found; do
    if ! is_mine "$found"; then # and does not count as one of those that KEEP spares
      spared+=("run ${found##*/} stays: it belongs to $(owner_of "$found")")
      continue
    fi
    if ((keep > 0)); then
      keep=$((keep - 1))
      continue
    fi
    reason=''
    if [[ $(key "$found/state/run" job) != "$job_name" ]]; then continue; fi
    while IFS= read -r part; do
      said=$(may_still_run "$part") || said='its state cannot be read'
      reason=${reason:-$said}
    done < <(folders_of "$found")
    if [[ $found == "$own_run" ]]; then reason='this script lies in it'; fi
    if [[ -n $reason ]]; then
      spared+=("run ${found##*/} stays: $reason")
    else
      finished+=("$found")
    fi
  done < <(list_runs)
  for found in "${finished[@]}"; do
    if is_needed "$found"; then
      spared+=("run ${found##*/} stays: another one began with its checkpoint")
    else
      old+=("$found")
    fi
  done
}

# is_needed RUN: a run began with its checkpoint, and is not among those in `finished`.
is_needed() {
  local part forks
  while IFS= read -r part; do
    forks=$(find "${part%/*}"/*/state/run -maxdepth 0 -type f -size -65k -exec grep -lsxF -- "init_from=$part" {} + 2>/dev/null |
      grep -vxF -f <(printf '%s/state/run\n' "${finished[@]}")) || true
    if [[ -n $forks ]]; then return; fi
  done < <(folders_of "$1")
  return 1
}

# list_removals THIN: sets `removals`, the folders that go: all of `old`, or with THIN checkpoints in them; and what a
# clean.sh that was killed has left. Says what goes and what stays.
list_removals() {
  local found folder part
  removals=()
  if ((${#spared[@]})); then printf '%s\n' "${spared[@]}"; fi
  for found in "${old[@]}"; do
    mapfile -t part < <(folders_of "$found")
    if [[ -n $1 ]]; then mapfile -t part < <(for folder in "${part[@]}"; do old_checkpoints "$folder"; done); fi
    if ((${#part[@]} == 0)); then continue; fi
    removals+=("${part[@]}")
    printf '%-22s  %6s old  %6s  %s' "${found##*/}" "$(age "$(key_number "$found/state/run" created)")" "$(size "${part[@]}")" "$(in_words "$found")"
    if [[ -n $1 ]]; then printf ': %s' "${part[*]##*/}"; fi
    echo
  done
  while IFS= read -r -d '' folder; do
    if is_mine "$folder" && is_hidden_run "$folder"; then removals+=("$folder"); fi
  done < <(find "$runs" -mindepth 1 -maxdepth 1 -type d -name '.*.removed' -print0 2>/dev/null)
  if ((${#removals[@]})); then echo "together $(size "${removals[@]}")"; fi
}

# is_hidden_run FOLDER: erase() has hidden it.
is_hidden_run() {
  local name=${1##*/.}
  is_run_id "${name%.removed}"
}

# remove_them: `removals`, but not those of a run that somebody has started again since they were listed.
remove_them() {
  local folder found shown code=0
  for folder in "${removals[@]}"; do
    found=${folder%/checkpoints/step_*}
    if is_run "$found" && [[ -n $(may_still_run "$found") ]]; then
      echo "run ${found##*/} stays: it has been started again"
    elif erase "$folder"; then
      shown=${folder#"$runs/"}
      echo "removed ${shown#"${runs%/*}/"}"
      if [[ $folder == "$found" ]]; then forget_secrets "$found"; fi
    else
      printf 'error: cannot remove %q\n' "$folder" >&2
      code=1
    fi
  done
  return "$code"
}

# old_checkpoints RUN: the trainer's checkpoints there but the last sound one and the best, one a line. None when none is sound.
old_checkpoints() {
  local folder last='' best found others=()
  best=$(readlink -- "$1/checkpoints/best" || true)
  while IFS= read -r folder; do
    found=older
    if [[ -z $last ]]; then found=$(looked_at "$folder"); fi
    if [[ $found == sound ]]; then
      last=$folder
    elif [[ $found == unread ]]; then
      printf 'warning: %q cannot be read, and stays\n' "$folder" >&2
    elif [[ ${folder##*/} != "$best" ]]; then
      others+=("$folder")
    fi
  done < <(LC_ALL=C find "$1/checkpoints" -mindepth 1 -maxdepth 1 -type d -regex '.*/step_[0-9]+' 2>/dev/null | sort -rV)
  if [[ -n $last && ${#others[@]} -gt 0 ]]; then printf '%s\n' "${others[@]}"; fi
}

# looked_at CHECKPOINT: sound, damaged or unread: what the disk does not give now may be sound.
looked_at() {
  if is_sound "$1"; then
    echo sound
  elif ! is_readable "$1"; then
    echo unread
  elif is_sound "$1"; then # the disk gave it only now
    echo sound
  else
    echo damaged
  fi
}

most_manifest_bytes=67108864

# is_sound CHECKPOINT: its files are those of its manifest, which checkpoint_store.py writes with one key a line.
is_sound() {
  local sums
  [[ -f $1/MANIFEST.json && -z $(find -L "$1" ! -type f ! -type d ! -type l -print -quit 2>/dev/null) ]] || return 1
  sums=$(head -c "$most_manifest_bytes" -- "$1/MANIFEST.json" 2>/dev/null |
    awk -F '"' '/^    "/ { name = $2 } $2 == "sha256" { print $4 "  " name }') || return 1
  [[ $sums != *'  '/* && $sums != *..* ]] || return 1 # a name that leads out of the checkpoint, to what may never end
  [[ -n $sums ]] && (cd -- "$1" && sha256sum --check --status --strict <<<"$sums" 2>/dev/null)
}

# is_readable CHECKPOINT: every byte of what is there, and no link that leads nowhere.
is_readable() {
  [[ -z $(find -L "$1" -type l -print -quit 2>&1) ]] && find -L "$1" -type f -exec cat -- {} + >/dev/null 2>&1
}

# erase FOLDER, which must be this user's: hides it first, so that a kill in the middle leaves nothing half under its name. Follows no symbolic
# link and goes to no other file system.
erase() {
  local hidden=$1
  [[ -d $1 && ! -L $1 ]] && is_mine "$1" || return 1
  if [[ ${1##*/} != .*.removed ]]; then
    hidden=${1%/*}/.${1##*/}.removed
    mv -T -- "$1" "$hidden" || return 1
  fi
  chmod -R u+w -- "$hidden" 2>/dev/null || true # the copies of code and artifact in a run are read-only
  rm -rf --one-file-system -- "$hidden"
}

# age [SECONDS]: how long ago that was, in its largest unit.
age() {
  local ago
  if [[ -z $1 ]]; then echo '?' && return; fi
  ago=$(($(date +%s) - $1))
  if ((ago >= 86400)); then
    echo "$((ago / 86400)) d"
  elif ((ago >= 3600)); then
    echo "$((ago / 3600)) h"
  else
    echo "$((ago / 60)) min"
  fi
}

# size FOLDER…: of all together, as people read it.
size() {
  du -shcx -- "$@" 2>/dev/null | tail -n 1 | cut -f 1
}
