# shellcheck shell=bash disable=SC2030,SC2031,SC2154 # variables go from one part to another, and of a subshell to functions called in it
# code_checkout.sh: sourced after run.sh. The user's code from a git repository, at one commit.

# checkout_code REPOSITORY COMMIT: makes RUN/code of it, with its submodules; the ranks may write there. Does nothing when that is there.
# GIT_TOKEN, if set (a secret of the job), is the password for https, of the repository's host and port and of no other.
# Asks no questions, and runs no hook.
# Ends the script with 65 when the commit is not there, 1 when the repository does not answer, three times.
checkout_code() {
  local copy=$run/.code words tries=3
  if [[ -d $run/code ]]; then return; fi
  type -P git >/dev/null || die 65 "git is not found on $(uname -n)" 'put it into the image; or code=image'
  check_source "$1" "$2"
  rm -rf -- "$copy"
  try "create $copy" plain_git git init --quiet --template= -- "$copy"
  try "write to $copy" plain_git git -C "$copy" config remote.origin.url "$1" # what URLs like ../NAME of submodules are relative to
  until words=$(fetch_commit "$copy" "$1" "$2" 2>&1); do
    if [[ $words == *'not our ref'* || $words == *'bad object'* ]]; then
      die 65 "commit $2 is not in $1" 'git push it, or set code.commit to one that is there'
    fi
    ((--tries)) || die 1 "cannot fetch commit $2 of $1: $(tail -n 1 <<<"$words")" 'a private one needs secrets.GIT_TOKEN, with https'
    sleep "${git_retry_s:-5}"
  done
  try "check out $2" asking_nothing "$1" git -C "$copy" checkout --quiet --detach "$2"
  if [[ -f $copy/.gitmodules ]]; then
    words=$(asking_nothing "$1" git -C "$copy" submodule --quiet update --init --recursive --depth=1 2>&1) ||
      die 1 "cannot fetch the submodules of $2: $(grep -m 1 -E '^fatal: ' <<<"$words" || tail -n 1 <<<"$words")" \
        'they come over https, http, ssh or git; a private one must be on the host of code.repository, which alone gets GIT_TOKEN'
  fi
  try "move it to $run/code" mv -T -- "$copy" "$run/code"
}

# check_source REPOSITORY COMMIT: ends the script when git would take them for an option or a command, or when the token
# would be readable on its way.
check_source() {
  local host
  if [[ $1 == -* || $1 =~ ^[A-Za-z0-9]+:: ]]; then
    die 65 "code.repository is not a repository that jobc fetches: $1" 'https://HOST/NAME, ssh://HOST/NAME or USER@HOST:NAME'
  fi
  if [[ ! $2 =~ ^[0-9a-f]{40}([0-9a-f]{24})?$ ]]; then die 65 "code.commit is not a commit: $2" 'git rev-parse HEAD prints one'; fi
  if [[ -z ${GIT_TOKEN:-} ]]; then return; fi
  host=$(host_of "$1")
  if [[ $1 == http://* && ! $host =~ ^(localhost|127(\.[0-9]+){3}|\[::1\])(:[0-9]+)?$ ]]; then
    die 65 "GIT_TOKEN is not sent over http, where it can be read on its way: $1" 'https in code.repository; or no secrets.GIT_TOKEN for a public one'
  fi
  if [[ $1 == http?(s)://* && ! $host =~ ^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$ ]]; then
    die 65 "code.repository has no host that GIT_TOKEN could be for: $1" 'https://HOST/NAME'
  fi
}

# host_of URL: HOST or HOST:PORT.
host_of() {
  local host=${1#*://}
  host=${host%%[/?#]*}
  printf '%s' "${host#*@}"
}

# fetch_commit FOLDER REPOSITORY COMMIT: that one alone, else, where the server gives no commit by its hash, all branches.
fetch_commit() {
  asking_nothing "$2" git -C "$1" fetch --quiet --depth=1 --no-tags -- "$2" "$3" ||
    { asking_nothing "$2" git -C "$1" fetch --quiet -- "$2" '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*' &&
      plain_git git -C "$1" cat-file -e "$3^{commit}"; }
}

# asking_nothing REPOSITORY COMMAND…: git, which takes the password from the variable and nothing from the user.
asking_nothing() (
  local protocol settings=0 scope=${1%%://*}://
  scope+=$(host_of "$1")
  unset GIT_ALLOW_PROTOCOL SSH_ASKPASS GIT_CONFIG_PARAMETERS
  export GIT_TERMINAL_PROMPT=0 GIT_ASKPASS='' GIT_SSH_COMMAND='ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new'
  export GIT_TRACE_REDACT=1
  if [[ ${GIT_CONFIG_COUNT:-} =~ ^[1-9][0-9]{0,3}$ ]]; then settings=$GIT_CONFIG_COUNT; fi # after those of the caller
  configure core.hooksPath /dev/null
  for protocol in allow ext.allow fd.allow; do configure "protocol.$protocol" never; done # ext:: runs a command
  for protocol in https http ssh git; do configure "protocol.$protocol.allow" always; done
  configure protocol.file.allow user # for code.repository, not for a submodule
  configure http.followRedirects initial # whose target gets no password, unless it is the same host
  if [[ -n ${GIT_TOKEN:-} ]]; then
    configure credential.helper '' # forget those of other configuration files
    if [[ $1 == http?(s)://* ]]; then
      configure "credential.$scope.helper" ''
      # shellcheck disable=SC2016 # it is git's shell that reads it
      configure "credential.$scope.helper" '!printf "username=git\npassword=%s\n" "$GIT_TOKEN" #' # any user name does
    fi
  fi
  export GIT_CONFIG_COUNT=$settings
  plain_git "${@:2}"
)

# configure KEY VALUE: the next setting of git, by environment variables: it is in no file and on no command line.
configure() {
  export "GIT_CONFIG_KEY_$settings=$1" "GIT_CONFIG_VALUE_$settings=$2"
  settings=$((settings + 1))
}

# plain_git COMMAND…: runs it without the variables by which a caller (a git hook, git rebase --exec) points git elsewhere.
plain_git() (
  unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES \
    GIT_NAMESPACE GIT_PREFIX GIT_CEILING_DIRECTORIES GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS \
    GIT_ICASE_PATHSPECS
  export GIT_DISCOVERY_ACROSS_FILESYSTEM=1 GIT_OPTIONAL_LOCKS=0 LC_ALL=C
  exec "$@"
)
