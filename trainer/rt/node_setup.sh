# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# node_setup.sh: part of run.sh, used by node.sh. Secrets, python, and how a start that failed is recorded.

# refuse_live_node: dies when this node of the run has a supervisor.
refuse_live_node() {
  local file
  file=$JOBC_RUN_DIR/state/node_$(printf '%02d' "$JOBC_NODE_RANK")
  if [[ -f $file && $(node_status "$file") == up ]]; then refuse_live "$JOBC_RUN_DIR"; fi
}

# fail CODE TITLE [HINT]: die, and leave word in the run folder, so that status.sh can tell.
fail() {
  local state=${JOBC_RUN_DIR:-/nonexistent}/state node now
  if [[ -d $state && ${payload:-} != @(shell|preflight|check) ]]; then
    now=$(date +%s)
    node=node_$(printf '%02d' "$JOBC_NODE_RANK")
    mkdir -p -- "$JOBC_RUN_DIR/exit/$JOBC_ATTEMPT"
    printf '%s\nreason=%s\n' "$1" "$2" >"$JOBC_RUN_DIR/exit/$JOBC_ATTEMPT/$node"
    printf '%s\n' "host=$(uname -n)" "attempt=$JOBC_ATTEMPT" "started=$now" "ended=$now" "exit=$1" "reason=$2" \
      >"$state/.$node" && mv -- "$state/.$node" "$state/$node"
  fi
  [[ ${payload:-} == preflight ]] && die 1 "${@:2}"
  die "$@"
}

# lacking TITLE HINT: a broken environment. preflight goes on to its other checks.
lacking() {
  if [[ ${payload:-} == preflight ]]; then
    printf 'FAIL  %s\n      hint: %s\n' "$1" "$2"
    lacks=1
  else
    fail 65 "$@"
  fi
}

# secret_env NAME VARIABLE: NAME gets the value of VARIABLE, which whoever starts the job must have exported.
secret_env() {
  local saved
  saved=$(secrets_of "$JOBC_RUN_DIR")/$2
  if [[ -n ${!2:-} ]]; then
    export "$1=${!2}"
  elif [[ -s $saved ]]; then
    export "$1=$(<"$saved")"
  else
    lacking "secret $1: the environment variable $2 is not set" "export $2 before submit.sh"
  fi
}

# secret_file NAME FILE: NAME gets the content of FILE, read now, on this node.
secret_file() {
  local file=${2/#\~\//$HOME/}
  if [[ -r $file && -s $file ]]; then
    export "$1=$(<"$file")"
  else
    lacking "secret $1: the file $file is empty or cannot be read on $(uname -n)" "put the value into it: chmod 600 $file"
  fi
}

# secret_k8s NAME SECRET/KEY: the engine has set NAME; whether to something is known only here.
secret_k8s() {
  [[ -n ${!1:-} ]] || lacking "secret $1: it is empty or not set" "kubectl get secret ${2%/*} must show the key ${2#*/}"
}

# lock_ports: opens the file in which the runs of this user on this machine lock the ports they are about to use.
lock_ports() {
  local folder=${TMPDIR:-/tmp}
  exec {port_lock}<>"$folder/jobc-ports-$UID" || fail 1 "cannot write to $folder" 'set TMPDIR to a folder that can be written'
}

# need_file FILE: dies when a script that the environment's set-up will read is not there.
need_file() {
  [[ -r $1 ]] || fail 65 "no $1 in $PWD" 'make the environment there, or choose another: env, python.path'
}

# activated STATUS LINE: checks the line of the environment's set-up that has just run.
activated() {
  if (($1 != 0)); then lacking "setting up the environment failed (exit $1): $2" 'try that line in a fresh shell'; fi
}

# find_python WORD [torch]: sets `python`, one that has torch when that is needed.
find_python() {
  local status=0
  python=$(type -P -- "$1") || fail 65 "python not found: $1" 'python.interpreter names another one; env=venv, conda, uv or modules brings one'
  [[ $python == /* ]] || python=$PWD/$python
  (cd / && "$python" - "$2" >/dev/null 2>&1) <<'PYTHON' || status=$?
import importlib.util, sys
sys.exit(3 if sys.version_info < (3, 10) else 4 if sys.argv[1] == "torch" and not importlib.util.find_spec("torch") else 0)
PYTHON
  case $status in
    0) ;;
    3) fail 65 "python is older than 3.10: $python" 'choose another environment in the spec' ;;
    4) lacking "no torch in the environment of $python" "$python -m pip install torch" ;;
    *) fail 65 "python does not start: $python (exit $status)" "$python -V" ;;
  esac
}

# need_launch_module: for launcher=torch_distributed_launch; a later torch will not have it (deprecated since 1.9).
need_launch_module() {
  local torch
  torch=$(cd / && "$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) || return 0
  [[ -f $torch/distributed/launch.py ]] ||
    lacking "the torch in $torch has no torch.distributed.launch any more" 'launcher=torchrun, and the program reads LOCAL_RANK from its environment'
}
