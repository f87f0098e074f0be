# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# code_snapshot.sh: part of run.sh. The copy of the user's code in a run.

# snapshot_code ROOT MAX_BYTES: copies the code there to RUN/code, read-only. What git would not commit stays out, and what
# a .jobcignore (written as a .gitignore) names, committed or not.
snapshot_code() {
  local root bytes most=$2 list=$run/.files
  root=$(cd -- "$1" 2>/dev/null && pwd -P) || die 65 "the code folder $1 does not exist" 'check code.root in the spec'
  list_code "$root" >"$list" || die 1 "cannot list the code in $root"
  bytes=$(cd -- "$root" && du -cb --files0-from="$list" 2>/dev/null | tail -n 1 | cut -f 1)
  if ((${bytes:-0} > most)); then
    die 65 "the code in $root is $((bytes / 1024 / 1024)) MiB, more than the $((most / 1024 / 1024)) MiB of a snapshot" \
      "list large files in .jobcignore or .gitignore, or allow it: code.max_size=$((bytes / 1024 / 1024 + 1))MiB; or code=shared"
  fi
  try "create the folder $run/code" mkdir -- "$run/code"
  try "copy the code to $run/code" copy_files "$root" "$run/code" "$list"
  rm -f -- "$list"
  chmod -R a-w -- "$run/code"
}

# copy_files FROM TO LIST
copy_files() (
  set -o pipefail
  tar -C "$1" --null --no-recursion -T "$3" -cf - | tar -C "$2" -xf -
)

# list_code ROOT: NUL-terminated, relative to it.
list_code() {
  local path skip run_root
  run_root=$(dirname -- "$runs")
  list_jobcignored "$1" >"$run/.ignored"
  list_committed "$1" | while IFS= read -r -d '' path; do
    for skip in "$project/artifacts" "$run_root"; do
      if [[ $1/$path == "$skip" || $1/$path == "$skip"/* ]]; then continue 2; fi
    done
    if [[ -n $path && (-e $1/$path || -L $1/$path) ]]; then printf '%s\0' "$path"; fi
  done | LC_ALL=C sort -zu | LC_ALL=C comm -z -23 - "$run/.ignored"
  rm -f -- "$run/.ignored"
}

# list_committed ROOT: what git has or would take of it; outside of a repository all but environments and caches.
list_committed() {
  if git -C "$1" rev-parse --is-inside-work-tree >/dev/null 2>&1 && ! git -C "$1" check-ignore -q .; then
    git -C "$1" ls-files -z --cached --recurse-submodules
    git -C "$1" ls-files -z --others --exclude-standard
  else
    find "$1" \( -name .git -o -name .venv -o -name __pycache__ \) -prune \
      -o \( -type f -o -type l -o -type d -empty \) -printf '%P\0'
  fi
}

# list_jobcignored ROOT: what the .jobcignore there, or in a folder below, names. Git reads them, with a repository in which
# nothing is committed, for it ignores no file that is.
list_jobcignored() {
  [[ -n $(find "$1" -name .jobcignore -print -quit) ]] || return 0
  type -P git >/dev/null || die 65 "git is needed to read .jobcignore in $1" 'install git; or remove the file'
  git init --quiet --bare --template= "$run/.git"
  (cd -- "$1" && GIT_DIR=$run/.git GIT_WORK_TREE=. git ls-files -z --others --ignored --exclude-per-directory=.jobcignore) |
    LC_ALL=C sort -z
  rm -rf -- "$run/.git"
}
