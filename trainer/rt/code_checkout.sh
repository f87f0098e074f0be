# shellcheck shell=bash disable=SC2154 # variables go from one part to another
# code_checkout.sh: part of run.sh. The user's code from a git repository, at one commit.

# checkout_code REPOSITORY COMMIT: makes RUN/code of it, read-only, with its submodules; nothing when that is there.
# GIT_TOKEN, if set (a secret of the job), is the password for https. Asks no questions.
# Ends the script with 65 when the commit is not there, 1 when the repository does not answer, three times.
checkout_code() {
  local copy=$run/.code said tries=3
  if [[ -d $run/code ]]; then return; fi
  type -P git >/dev/null || die 65 "git is not found on $(uname -n)" 'put it into the image; or code=image'
  rm -rf -- "$copy"
  try "create $copy" git init --quiet -- "$copy"
  until said=$(fetch_commit "$copy" "$1" "$2" 2>&1); do
    if [[ $said == *'not our ref'* || $said == *'bad object'* ]]; then
      die 65 "commit $2 is not in $1" 'git push it, or set code.commit to one that is there'
    fi
    ((--tries)) || die 1 "cannot fetch commit $2 of $1: $(tail -n 1 <<<"$said")" 'a private one needs secrets.GIT_TOKEN, with https'
    sleep 5
  done
  try "check out $2" asking_nothing git -C "$copy" checkout --quiet --detach "$2"
  if [[ -f $copy/.gitmodules ]]; then
    try "fetch the submodules of $2" asking_nothing git -C "$copy" submodule --quiet update --init --recursive --depth=1
  fi
  chmod -R a-w -- "$copy"
  try "move it to $run/code" mv -T -- "$copy" "$run/code"
}

# fetch_commit FOLDER REPOSITORY COMMIT: that one alone, else, where the server gives no commit by its hash, all branches.
fetch_commit() {
  asking_nothing git -C "$1" fetch --quiet --depth=1 --no-tags -- "$2" "$3" ||
    { asking_nothing git -C "$1" fetch --quiet -- "$2" '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*' &&
      git -C "$1" cat-file -e "$3^{commit}"; }
}

# asking_nothing COMMAND…: git, which takes the password from the variable and nothing from the user.
asking_nothing() (
  export GIT_TERMINAL_PROMPT=0 GIT_SSH_COMMAND='ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new'
  if [[ -n ${GIT_TOKEN:-} ]]; then # any user name does, where the password is a token
    export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=credential.helper
    # shellcheck disable=SC2016 # it is git's shell that reads it
    export GIT_CONFIG_VALUE_0='!printf "username=git\npassword=%s\n" "$GIT_TOKEN" #'
  fi
  exec "$@"
)
