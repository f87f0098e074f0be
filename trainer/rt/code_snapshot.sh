# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# code_snapshot.sh: part of run.sh. The copy of the user's code in a run.

code_script='' # the file of the user's code that the ranks run, where the scripts of the artifact know it

# snapshot_code ROOT MAX_BYTES: copies the code there to RUN/code, where the ranks run and may write. Not copied is what git
# would not commit, and what a .jobcignore (written as a .gitignore) names, committed or not. Top-level entries that git
# ignores, such as data/, are linked where the nodes see them. When git cannot answer, nothing is copied. code_script,
# which the ranks run, must be in the copy.
snapshot_code() {
  local ignored=() root bytes most=$2 list=$run/.files
  root=$(cd -- "$1" 2>/dev/null && pwd -P) || die 65 "the code folder $1 does not exist" 'check code.root in the spec'
  list_code "$root" "$list"
  bytes=$(cd -- "$root" && du -cb --files0-from="$list" 2>/dev/null | tail -n 1 | cut -f 1)
  if ((${bytes:-0} > most)); then
    die 65 "the code in $root is $((bytes / 1024 / 1024)) MiB, more than the $((most / 1024 / 1024)) MiB of a snapshot" \
      "list large files in .jobcignore or .gitignore, or allow it: code.max_size=$((bytes / 1024 / 1024 + 1))MiB; or code=shared"
  fi
  if [[ -e $list.plain ]]; then describe_plain_copy "$root" "$list" "${bytes:-0}"; fi
  if [[ -d $run/code ]]; then # of an earlier attempt, with what its ranks wrote
    chmod -R u+w -- "$run/code"
    find "$run/code" -maxdepth 1 -type l -lname "$root/*" -delete # else tar writes to the files that it reads
  else
    try "create the folder $run/code" mkdir -- "$run/code"
  fi
  try "copy the code to $run/code" copy_files "$root" "$run/code" "$list"
  chmod -R u+w -- "$run/code"
  if [[ ! -e $list.plain ]]; then
    list_ignored "$root" "$list"
    link_ignored "$root" "$list"
  fi
  if [[ -n $code_script && ! -e $run/code/$code_script ]]; then refuse_script "$root" "$code_script"; fi
  rm -f -- "$list" "$list".*
}

# refuse_script ROOT SCRIPT: ends the start before it costs a node.
refuse_script() {
  if [[ -e $1/$2 ]]; then
    die 65 "the script $2 is not in the copy of $1" "git or .jobcignore ignores it: git add -f $2, or remove the pattern"
  fi
  die 65 "there is no script $2 in $1" 'check the words after --; code.root=FOLDER names another folder'
}

# list_ignored ROOT LIST: sets `ignored`: the top-level entries there that git ignores and no .jobcignore names.
list_ignored() {
  ask_git "$1" ls-files -z --others --ignored --exclude-standard --directory >"$2.links"
  sed -z 's:/$::' -- "$2.links" | { LC_ALL=C grep -zv / || true; } | LC_ALL=C sort -zu >"$2.top"
  cut -z -d / -f 1 -- "$2.ignored" | LC_ALL=C sort -zu >"$2.named"
  mapfile -t -d '' ignored < <(LC_ALL=C comm -z -23 -- "$2.top" "$2.named")
}

# link_ignored ROOT LIST: makes a link in RUN/code to each entry of `ignored` that a script may need. Prints one line with
# what was copied, linked and left out, unless there was nothing to link or leave out.
link_ignored() {
  local name linked=() left=() copied line most
  for name in "${ignored[@]}"; do
    if is_by_product "$1" "$name" || [[ -e $run/code/$name || -L $run/code/$name ]]; then continue; fi
    if is_secret_name "$name" || is_environment "$1/$name" || holds_runs "$1/$name" || ! nodes_see "$1"; then
      left+=("$name")
    else
      try "link $1/$name to $run/code" ln -s -- "$1/$name" "$run/code/$name"
      linked+=("$name")
    fi
  done
  if ((${#linked[@]} + ${#left[@]} == 0)); then return; fi
  copied=$(tr -cd '\0' <"$2" | wc -c)
  for most in 3 2 1; do
    line="code: $copied files copied"
    if ((${#linked[@]})); then line+="; linked: $(short_list "$most" "${linked[@]}")"; fi
    if ((${#left[@]})); then line+="; left out: $(short_list "$most" "${left[@]}")"; fi
    if ((${#line} <= 80)); then break; fi
  done
  printf '%s\n' "$line" >&2 # with --only-prepare, stdout is the path of the run
}

# nodes_see FOLDER: the ranks can open it, because it is on the file system of the run. Engines that know better redefine it.
nodes_see() {
  [[ $(stat -c %m -- "$1") == "$(stat -c %m -- "$run")" ]]
}

# is_by_product ROOT NAME: a cache, a hidden file, artifacts or runs: neither linked nor reported.
is_by_product() {
  case $2 in
    .* | __pycache__ | node_modules | *.egg-info | *.pyc | build | dist) return 0 ;;
  esac
  [[ $1/$2 == "$project/artifacts" || $1/$2 == "$(dirname -- "$runs")" ]]
}

# is_secret_name NAME: of a file that a run must not get by itself. Hidden ones such as .env are by-products.
is_secret_name() {
  case ${1,,} in
    *.pem | *.key | *.p12 | *.pfx | *.env | id_rsa* | id_dsa* | id_ecdsa* | id_ed25519* | *secret* | *credential* | *password*) return 0 ;;
  esac
  return 1
}

# is_environment FOLDER: of Python or conda.
is_environment() {
  [[ -e $1/pyvenv.cfg || -d $1/conda-meta ]]
}

# holds_runs FOLDER: the runs or artifacts are in it: a link would make the folder contain itself.
holds_runs() {
  [[ $runs/ == "$1"/* || $project/artifacts/ == "$1"/* ]]
}

# short_list MOST NAME…: so many of the names, escaped and cut to 16 characters, and the number of the others.
short_list() {
  local name text='' most=$1
  shift
  for name in "${@:1:most}"; do
    printf -v name '%q' "$name"
    if ((${#name} > 16)); then name=${name:0:15}…; fi
    text+="${text:+, }$name"
  done
  if (($# > most)); then text+=" and $(($# - most)) more"; fi
  printf '%s' "$text"
}

# copy_files FROM TO LIST
copy_files() (
  set -o pipefail
  tar -C "$1" --null --no-recursion -T "$3" -cf - | tar -C "$2" -xf -
)

# describe_plain_copy ROOT LIST BYTES: prints what is copied of a folder whose files no git repository tracks.
describe_plain_copy() { # on stderr: with --only-prepare, stdout is the path of the run
  local secrets
  printf 'code: copying %d files (%s), because %q is not in a git repository\n' \
    "$(tr -cd '\0' <"$2" | wc -c)" "$(numfmt --to=iec-i --suffix=B -- "$3")" "$1" >&2
  mapfile -t -d '' secrets <"$2.secrets"
  if ((${#secrets[@]})); then
    printf 'code: not copied, because the names are those of secrets:%s; if the job needs them: git init, git add FILE\n' \
      "$(printf ' %q' "${secrets[@]:0:5}")" >&2
  fi
}

# list_code ROOT LIST: the files to copy, NUL-terminated, relative to ROOT. LIST.plain exists afterwards when no repository
# describes them; LIST.secrets has what was therefore left out.
list_code() {
  local path skip run_root
  run_root=$(dirname -- "$runs")
  list_jobcignored "$1" "$2"
  if is_in_repository "$1"; then
    ask_git "$1" ls-files -z --cached --recurse-submodules >"$2.kept"
    ask_git "$1" ls-files -z --others --exclude-standard >>"$2.kept"
  else
    list_plain "$1" "$2"
  fi
  while IFS= read -r -d '' path; do
    for skip in "$project/artifacts" "$run_root"; do
      if [[ $1/$path == "$skip" || $1/$path == "$skip"/* ]]; then continue 2; fi
    done
    if [[ -n $path && (-e $1/$path || -L $1/$path) ]]; then printf '%s\0' "$path"; fi
  done <"$2.kept" | LC_ALL=C sort -zu | LC_ALL=C comm -z -23 - "$2.ignored" >"$2" || die 1 "cannot list the code in $1"
}

# is_in_repository ROOT: git knows which of its files to commit. Fails when there is no .git in ROOT or above it, or the
# repository above ignores ROOT. Ends the script when there is a .git and git cannot answer.
is_in_repository() {
  local folder=$1
  until [[ -e ${folder%/}/.git || -L ${folder%/}/.git ]]; do
    if [[ $folder == / ]]; then
      [[ -z ${GIT_DIR:-}${GIT_WORK_TREE:-} ]] ||
        die 65 "GIT_DIR or GIT_WORK_TREE is set, and $1 has no .git" 'unset GIT_DIR GIT_WORK_TREE, and list in .jobcignore what the run must not get'
      return 1
    fi
    folder=$(dirname -- "$folder")
  done
  ! ask_git "$1" check-ignore -q .
}

# list_plain ROOT LIST: without a repository: all files but environments, caches, what a .gitignore names, and secrets.
list_plain() {
  local name secrets=()
  : >"$2.plain"
  for name in .env .env.local .netrc .git-credentials .pypirc id_rsa id_dsa id_ecdsa id_ed25519; do secrets+=(-o -name "$name"); done
  find "$1" \( "${secrets[@]:1}" \) -printf '%P\0' >"$2.secrets"
  find "$1" \( -name .git -o -name .venv -o -name __pycache__ "${secrets[@]}" \) -prune \
    -o \( -type f -o -type l -o -type d -empty \) -printf '%P\0' >"$2.found" || die 1 "cannot list the code in $1"
  if [[ -z $(find "$1" \( -path "$project/artifacts" -o -path "$(dirname -- "$runs")" \) -prune -o -name .gitignore -print -quit) ]]; then
    mv -- "$2.found" "$2.kept"
    return
  fi
  make_scratch_repository "$1" .gitignore
  ask_git "$1" check-ignore --no-index -z --stdin <"$2.found" >"$2.gitignored" || true # 1: it ignores none of them
  rm -rf -- "$run/.git"
  LC_ALL=C comm -z -23 <(LC_ALL=C sort -z -- "$2.found") <(LC_ALL=C sort -z -- "$2.gitignored") >"$2.kept"
}

# list_jobcignored ROOT LIST: writes to LIST.ignored what the .jobcignore there, or in a folder below, names. Git reads them,
# with a repository in which nothing is committed, because it ignores no file that is.
list_jobcignored() {
  : >"$2.ignored"
  [[ -n $(find "$1" -name .jobcignore -print -quit) ]] || return 0
  make_scratch_repository "$1" .jobcignore
  ask_git "$1" ls-files -z --others --ignored --exclude-per-directory=.jobcignore >"$2.named"
  rm -rf -- "$run/.git"
  LC_ALL=C sort -z -- "$2.named" >"$2.ignored"
}

# make_scratch_repository ROOT FILE: RUN/.git, an empty one whose working tree is ROOT; ask_git uses it while it exists.
make_scratch_repository() {
  type -P git >/dev/null || die 65 "git is needed to read $2 in $1" 'install git; or remove the file'
  ask_git "$run" init --quiet --bare --template= "$run/.git"
}

# ask_git FOLDER WORD…: git's answer about FOLDER on stdout; fails when git exits with 1. Ends the script, with git's own
# words, when git is not there, reports another error, hangs, or cannot read a list of what to ignore.
ask_git() {
  local folder=$1 status=0 words
  shift
  type -P git >/dev/null || die 65 "git is not found on $(uname -n), and $folder is in a git repository" \
    'install git: without it the run would get what .gitignore keeps out; or code=shared'
  if [[ -d $run/.git && $1 != init ]]; then set -- "--git-dir=$run/.git" --work-tree=. "$@"; fi
  plain_git timeout --foreground "${git_timeout_s:-300}" git -c core.fsmonitor=false -C "$folder" "$@" 2>"$run/.git_words" || status=$?
  words=$(<"$run/.git_words")
  rm -f -- "$run/.git_words"
  if ((status == 124)); then words="no answer in ${git_timeout_s:-300} s"; fi
  if ((status > 1)) || [[ $words == *'unable to access'* ]]; then
    die 65 "git cannot say which files of $folder belong to the code: ${words:-it exits with $status}" \
      "nothing was copied, because what .gitignore keeps out may be secret; git -C ${folder@Q} status shows the same"
  fi
  return "$status"
}

# plain_git COMMAND…: runs it without the variables by which a caller (a git hook, git rebase --exec) points git elsewhere.
plain_git() (
  unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES \
    GIT_NAMESPACE GIT_PREFIX GIT_CEILING_DIRECTORIES GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS \
    GIT_ICASE_PATHSPECS
  export GIT_DISCOVERY_ACROSS_FILESYSTEM=1 GIT_OPTIONAL_LOCKS=0 LC_ALL=C
  exec "$@"
)
