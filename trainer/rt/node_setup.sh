# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# node_setup.sh: part of run.sh, used by node.sh. Secrets, a home, python, and how a start that failed is recorded.

# refuse_live_node: dies when this node of the run has a supervisor. Forgets that it failed to start before, by hand.
refuse_live_node() {
  local file first=$JOBC_RUN_DIR/exit/$JOBC_ATTEMPT/first
  file=$JOBC_RUN_DIR/state/node_$(printf '%02d' "$JOBC_NODE_RANK")
  if [[ -f $file && $(node_status "$file") == up ]]; then refuse_live "$JOBC_RUN_DIR"; fi
  # not with srun, where another task of this node may just have left it
  if [[ $launcher != srun && -f $first && $(key_number "$first" node) == "$JOBC_NODE_RANK" ]]; then rm -f -- "$first"; fi
}

# fail CODE TITLE [HINT]: die, and leave word in the run folder, so that jobctl status can tell, and the others do not wait.
fail() {
  local state=${JOBC_RUN_DIR:-/nonexistent}/state ends=${JOBC_RUN_DIR:-}/exit/${JOBC_ATTEMPT:-0} node now
  if [[ -d $state && ${payload:-} != @(shell|preflight|check) ]]; then
    mkdir -p -- "$ends"
    if ((${nodes:-1} > 1 || ${task:-0} != 0)); then tell_first "$@"; fi
    if [[ ${task:-0} == 0 ]]; then # the files of the node are task 0's
      now=$(date +%s)
      node=node_$(printf '%02d' "$JOBC_NODE_RANK")
      printf '%s\nreason=%s\n' "$1" "$2" >"$ends/$node"
      printf '%s\n' "host=$(uname -n)" "attempt=$JOBC_ATTEMPT" "started=$now" "ended=$now" "exit=$1" "reason=$2" \
        >"$state/.$node" && mv -- "$state/.$node" "$state/$node"
    fi
  fi
  [[ ${payload:-} == preflight ]] && die 1 "${@:2}"
  die "$@"
}

# tell_first CODE REASON: as first_failure.py does, but whoever was first stays.
tell_first() {
  local first=$ends/first new
  new=$ends/.first.$JOBC_NODE_RANK.${task:-0}
  printf '%s\n' "$1" "node=$JOBC_NODE_RANK" "time_ns=$(date +%s%N)" "reason=$2" >"$new"
  mv -n -- "$new" "$first" 2>/dev/null || true
  rm -f -- "$new"
}

# lacking TITLE HINT: a broken environment. preflight goes on to its other checks, and says it as node_checks.py does.
lacking() {
  if [[ ${payload:-} == preflight ]]; then
    printf 'FAIL\tenvironment\t%s\t%s\n' "$1" "$2"
    lacks=1
  else
    fail 65 "$@"
  fi
}

# secret_env NAME VARIABLE: NAME gets the value of VARIABLE, which whoever starts the job must have exported.
secret_env() {
  local saved
  saved=$(saved_secret "$JOBC_RUN_DIR" "$2")
  if [[ -n ${!2:-} ]]; then
    export "$1=${!2}"
  elif [[ -n $saved ]]; then
    export "$1=$(<"$saved")"
  elif [[ $payload == shell ]]; then # the run's own is removed when all nodes are up
    printf 'warning: secret %s is not in this shell; where it is wanted: read -rs %s && export %s\n' "$1" "$1" "$1" >&2
  else
    lacking "secret $1: the environment variable $2 is not set" "export $2 before jobctl submit"
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

# find_network: exports network settings of this node for NCCL and Gloo; dies when it has not the network that the job asks for.
find_network() {
  local said line status=0
  said=$("$python" -I -S "$jobctl" network --profile="$network" --interface="$interface" --gpus="$gpus" \
    --head="$JOBC_HEAD_ADDR" --timeout="$rendezvous_timeout_s") || status=$?
  if ((status)) && [[ $payload == shell ]]; then # which may be there to find out why
    printf 'warning: %s\n' "${said%%$'\n'*}" >&2
    return
  fi
  if ((status)); then fail "$status" "${said%%$'\n'*}" "${said#*$'\n'}"; fi
  while IFS= read -r line; do
    if [[ -n $line ]]; then export "${line?}"; fi
  done <<<"$said"
}

# need_gpu_type TYPE: dies when the GPUs are not what the job asks for, on nodes that no engine has chosen by it.
need_gpu_type() {
  local said
  said=$("$python" -I -S "$jobctl" gpus "$1") || lacking "$said" 'other hosts, or gpu_type=null for any'
}

# use_cache FOLDER KEY: sets `cache`, the folder as it is on this node, made. $UID in it is the user's number, for what
# one user makes in /tmp is closed to the others. KEY is where the spec says it.
use_cache() {
  find_project "$here"
  # shellcheck disable=SC2016 # the text $UID
  cache=${1//'$UID'/$UID}
  cache=$(under_project "${cache/#\~\//$HOME/}")
  mkdir -p -- "$cache" 2>/dev/null && [[ -r $cache && -x $cache ]] ||
    lacking "the cache folder $cache cannot be used on $(uname -n)" "$2=FOLDER names another"
}

# use_own_cache FOLDER KEY: the same for what will be executed: nobody else may have made it, or write there.
use_own_cache() {
  local before
  before=$(umask)
  umask 077
  use_cache "$@"
  umask "$before"
  [[ -O $cache && -w $cache ]] ||
    lacking "the cache folder $cache on $(uname -n) belongs to another user" "$2=FOLDER names another; \$UID in it is yours"
  if ! is_safe "$cache"; then
    printf 'jobc: other users can change %s=%q, or a folder above it: using a folder of this user alone\n' "$2" "$cache" >&2
    cache=$(private_folder caches) || lacking "no folder for caches in ${TMPDIR:-/tmp} on $(uname -n)" 'set TMPDIR'
  fi
}

# lock_ports: opens the file in which the runs of this user on this machine lock the ports they are about to use.
lock_ports() {
  local folder
  folder=$(private_folder ports) || fail 1 "cannot write to ${TMPDIR:-/tmp}" 'set TMPDIR to a folder that can be written'
  exec {port_lock}<>"$folder/lock" || fail 1 "cannot write to $folder" 'set TMPDIR to a folder that can be written'
}

# avoid_planted_caches: what torch.compile executes from its default cache (torch 2.13, cache_dir_utils.py) may be of another
# user, who made the folder first.
avoid_planted_caches() {
  local default
  default=${TMPDIR:-/tmp}/torchinductor_$(id -un 2>/dev/null || echo "$EUID")
  if [[ -n ${TORCHINDUCTOR_CACHE_DIR:-} || (! -e $default && ! -L $default) ]]; then return; fi
  if [[ -O $default && ! -L $default ]] && is_safe "$default"; then return; fi
  if default=$(private_folder inductor); then export TORCHINDUCTOR_CACHE_DIR=$default; fi
}

# find_head_port: sets JOBC_HEAD_PORT, where the ranks meet: node 0 chooses it when it is 0, and the others wait for its word.
find_head_port() {
  local said status=0
  said=$("$python" -I -S "$jobctl" head_port "$JOBC_HEAD_PORT" --lock-fd="$port_lock" --timeout="$rendezvous_timeout_s") ||
    status=$?
  if ((status)); then fail "$status" "${said%%$'\n'*}" "${said#*$'\n'}"; fi
  JOBC_HEAD_PORT=$said
}

# settle_in: inside; what an image may lack. A home is wanted by most caches, and the user may have none in there.
settle_in() {
  [[ -d ${TMPDIR:-/tmp} ]] || unset TMPDIR
  if [[ ! -d ${HOME:-} || ! -w $HOME ]]; then
    HOME=$(private_folder home) || fail 1 "the container has no home, and no folder for one can be made in ${TMPDIR:-/tmp}" 'set TMPDIR'
    export HOME
  fi
  export PYTHONNOUSERSITE=1 # packages in a home that is seen are of another Python
}

# need_shm BYTES: of /dev/shm, through which data loaders and NCCL hand on what they have.
need_shm() {
  local size
  size=$(df --output=size -B 1 /dev/shm | tail -n 1)
  if ((size < $1)); then
    lacking "/dev/shm has $((size / 1024 / 1024)) MiB on $(uname -n), wanted: $(($1 / 1024 / 1024)) MiB" \
      'a smaller shm; container=docker makes one of its own'
  fi
}

# need_file FILE: dies when a script that the environment's set-up will read is not there.
need_file() {
  [[ -r $1 ]] || fail 65 "no $1 in $PWD" 'make the environment there, or choose another: env, python.path'
}

# activated STATUS LINE: checks the line of the environment's set-up that has just run.
activated() {
  if (($1 != 0)); then lacking "setting up the environment failed (exit $1): $2" 'try that line in a fresh shell'; fi
}

# setup_failed STATUS LINE COMMAND: ends the start when a command of setup.sh failed; LINE 0: it left the shell.
setup_failed() {
  trap - ERR EXIT
  if [[ $3 == source*/setup.sh* ]]; then
    lacking 'setup.sh is not valid bash' 'the line above names the place; correct the key setup'
  elif (($2)); then
    lacking "setup failed (exit $1): $3" "line $2 of setup.sh, from the key setup; try it in a fresh shell on $(uname -n)"
  else
    lacking "setup ended the start (exit $1)" 'a line of the key setup calls exit'
  fi
}

# find_python WORD [MODULE]: sets `python`, one that has torch when that is the module, and `safe_path`, its option for a
# launcher that imports nothing from its working directory (Python 3.11). Commands without user code import nothing from it either.
find_python() {
  local said status=0
  python=$(type -P -- "$1") || fail 65 "python not found: $1" 'python.interpreter names another one; python=venv, conda, uv or modules brings one'
  [[ $python == /* ]] || python=$PWD/$python
  said=$(
    cd / && "$python" - "$2" 2>/dev/null <<'PYTHON'
import importlib.util, sys
print("-P" if sys.version_info >= (3, 11) else "")
sys.exit(3 if sys.version_info < (3, 10) else 4 if sys.argv[1] == "torch" and not importlib.util.find_spec("torch") else 0)
PYTHON
  ) || status=$?
  case $status in
    0) ;;
    3) fail 65 "python is older than 3.10: $python" 'choose another environment in the spec' ;;
    4) lacking "no torch in the environment of $python" "$python -m pip install torch" ;;
    *) fail 65 "python does not start: $python (exit $status)" "$python -V" ;;
  esac
  # shellcheck disable=SC2034 # node.sh reads it
  if [[ $said == *-P ]]; then safe_path=(-P); else safe_path=(); fi
  if [[ ${payload:-} == smoke || (${payload:-} == train && ${code_kind:-} == lib) ]]; then export PYTHONSAFEPATH=1; fi
}

# need_module NAME: in the environment of `python`.
need_module() {
  (cd / && "$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)' "$1" 2>/dev/null) ||
    lacking "no $1 in the environment of $python" "$python -m pip install $1"
}

# need_launch_module: for launcher=torch_distributed_launch; a later torch will not have it (deprecated since 1.9).
need_launch_module() {
  local torch
  torch=$(cd / && "$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) || return 0
  [[ -f $torch/distributed/launch.py ]] ||
    lacking "the torch in $torch has no torch.distributed.launch any more" 'launcher=torchrun, and the program reads LOCAL_RANK from its environment'
}

# need_mpirun: that of Open MPI 4, which mpi.py knows; and root may use it only by the variables that it asks for.
need_mpirun() {
  local said
  said=$(mpirun --version 2>/dev/null | sed -n 1p) || true
  if [[ $said != *'(Open MPI) 4.'* ]]; then
    lacking "no mpirun of Open MPI 4 on $(uname -n)${said:+: $said}" 'apt-get install openmpi-bin, or python.modules=[openmpi/4.1]; or launcher=torchrun'
  elif ((EUID == 0)) && [[ -z ${OMPI_ALLOW_RUN_AS_ROOT:-} || -z ${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-} ]]; then
    lacking 'mpirun refuses to run as root' 'another user; or, at your own risk, env.OMPI_ALLOW_RUN_AS_ROOT=1 env.OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1'
  fi
}
