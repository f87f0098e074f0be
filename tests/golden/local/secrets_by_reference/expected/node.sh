#!/usr/bin/env bash
# node.sh: starts the ranks of job mine on this node. The same file on every node.
# usage: node.sh [NODE_RANK] [train|smoke|check|preflight|shell] [COMMAND of shell…]
#   jobctl submit calls it with the JOBC_ variables set: JOBC_RUN_DIR, JOBC_HEAD_ADDR, JOBC_HEAD_PORT, JOBC_ATTEMPT.

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
source "$here/lib/run.sh"

case ${1:-} in
  -h | --help) show_help && exit ;;
  -*) bad_option "$1" ;;
esac

# ---- settings, from the spec

export JOBC_JOB_NAME=mine
nodes=1
procs=1
gpus=0
launcher=spawn
network=auto
interface='' # for TCP between nodes; empty: the one that leads to node 0
rendezvous_port=0
rendezvous_timeout_s=300
max_restarts=0
threads_per_rank=1
grace_s=60
code_kind=snapshot
code_root=.
wanted_python=python3
uses_trainer=false

# What each rank runs, one argument a line.
command=(
  python3
  record.py
)

# ---- this node

payload=${2:-train}
if [[ -z ${JOBC_RUN_DIR:-} && $payload == train && -f $here/../../state/run && -f $here/task.sh ]]; then # by hand
  exec bash "$here/task.sh" "$(cd -- "$here/../.." && pwd -P)" "${here##*/}" "${1:-0}" train
fi
export JOBC_NODE_RANK=${1:-${JOBC_NODE_RANK:-0}}
export JOBC_RUN_DIR=${JOBC_RUN_DIR:-}
export JOBC_RUN_ID=${JOBC_RUN_ID:-$(basename -- "$JOBC_RUN_DIR")}
export JOBC_JOB_ID=${JOBC_JOB_ID:-$JOBC_RUN_ID}
export JOBC_NODE_LIST=${JOBC_NODE_LIST:-$(uname -n)}
export JOBC_HEAD_ADDR=${JOBC_HEAD_ADDR:-127.0.0.1}
export JOBC_HEAD_PORT=${JOBC_HEAD_PORT:-$rendezvous_port}
export JOBC_ATTEMPT=${JOBC_ATTEMPT:-0}

case $payload in
  train) ;;
  smoke)
    command=(python3 -m jobc_trainer.smoke)
    uses_trainer=true
    launcher=spawn # starts sooner than torchrun
    procs=$((nodes > 1 && gpus == 1 ? 1 : 2)) # two of them meet; two ranks cannot share a GPU
    if ((procs > gpus)); then gpus=0; fi # then the collective is one of CPUs
    ;;
  check | preflight | shell) ;;
  *) die 2 "unknown payload: $payload" 'train, smoke, check, preflight or shell' ;;
esac
if [[ $payload == @(train|smoke) ]]; then
  [[ -d $JOBC_RUN_DIR ]] || die 2 "no run folder: JOBC_RUN_DIR='$JOBC_RUN_DIR'" 'jobctl submit makes one and calls this file; --help tells how to do it by hand'
  refuse_live_node
fi

# ---- the environment of the ranks

unset "${!PET_@}" "${!TORCHELASTIC_@}" # what an outer torchrun may have left
export JOBC_LAUNCHER=jobc # RANK and its like count, whatever a launcher outside has set
export JOBC_NODES=$nodes
export JOBC_PROCS=$procs
export JOBC_GPUS=$gpus
export JOBC_LIB=$here/jobctl
export JOBC_GRACE_S=$grace_s
export PYTHONUNBUFFERED=1
secret_env HF_TOKEN MY_TOKEN
secret_file WANDB_API_KEY '~/keys/wandb'

# In the folder where the job was compiled, if this node has it.
find_project "$here"
cd -- "$project" 2>/dev/null || cd -- "$here"

# The spec's own variables, after modules, environments and setup lines, so that these change none of them.
export OMP_NUM_THREADS=$threads_per_rank
export PYTHONPATH=$JOBC_LIB${PYTHONPATH:+:$PYTHONPATH}
find_python "$wanted_python" "$([[ $launcher == @(torch*|accelerate) || $uses_trainer == true ]] && echo torch)"
if [[ $launcher == torch_distributed_launch ]]; then need_launch_module; fi
if [[ $launcher == mpirun ]]; then need_mpirun; fi
if [[ ${command[0]} == python3 ]]; then command[0]=$python; fi

# The snapshot that jobctl submit made, else the code where it lies. Without code of one's own any folder will do.
code=${JOBC_RUN_DIR:+$JOBC_RUN_DIR/code}
[[ -d $code ]] || code=$(under_project "$code_root")
if [[ ! -d $code ]]; then
  if [[ $code_kind != @(none|lib) && $payload != smoke ]]; then
    lacking "no code folder $code on $(uname -n)" 'code.root=FOLDER names it; every node must see it'
  fi
  code=${JOBC_RUN_DIR:-$here}
fi
cd -- "$code"

jobctl=$JOBC_LIB
if ((nodes > 1)) && [[ $payload != preflight ]]; then find_network; fi
if [[ $payload == shell ]]; then
  shift 2
  (($#)) || set -- bash --norc -i
  exec "$@"
fi
if [[ $payload == preflight ]]; then
  checks=(
    "$python" -B "$jobctl" node_checks
    --procs="$procs"
    --gpus="$gpus"
    --gpu-type="${JOBC_GPU_TYPE:-}"
    --port="$JOBC_HEAD_PORT"
    --run-root="${JOBC_RUN_ROOT:-${JOBC_RUN_DIR%/*/*}}"
    --profile="$network"
    --interface="$interface"
  )
  if [[ $code_kind == shared ]]; then checks+=(--code="$PWD"); fi
  if [[ $launcher == @(torch*|accelerate) || $uses_trainer == true ]]; then checks+=(--torch); fi
  "${checks[@]}" -- "${command[@]}" || lacks=1
  exit "${lacks:-0}"
fi

# ---- start the ranks

rank=("$python" -I -S "$jobctl" rank -- "${command[@]}")

avoid_planted_caches
lock_ports
find_head_port
if [[ $payload == check ]]; then exit; fi

# torchrun treats arguments as string.Template, where $$ is a dollar.
doubled=("${rank[@]//\$/\$\$}")
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=$grace_s
wait_for_head=''
case $launcher in
  torchrun)
    launch=(
      "$python" "${safe_path[@]}" -m torch.distributed.run
      --nnodes="$nodes"
      --nproc-per-node="$procs"
      --node-rank="$JOBC_NODE_RANK"
      --master-addr="$JOBC_HEAD_ADDR"
      --master-port="$JOBC_HEAD_PORT"
      --rdzv-conf="timeout=$rendezvous_timeout_s"
      --log-dir="$JOBC_RUN_DIR/logs/torchrun"
      --no-python
      --
      "$python" "${doubled[@]:1}"
    )
    wait_for_head=yes
    ;;
  spawn)
    launch=("$python" -I -S "$jobctl" spawn -- "${rank[@]}")
    ;;
  torch_distributed_launch) # for programs that expect --local-rank=N
    launch=(
      "$python" "${safe_path[@]}" -m torch.distributed.launch
      --nnodes="$nodes"
      --nproc_per_node="$procs"
      --node_rank="$JOBC_NODE_RANK"
      --master_addr="$JOBC_HEAD_ADDR"
      --master_port="$JOBC_HEAD_PORT"
      --rdzv_conf="timeout=$rendezvous_timeout_s"
      "${doubled[@]:3}"
    )
    wait_for_head=yes
    ;;
  mpirun) # one for all nodes, on node 0; see mpi.py for how the other nodes join
    words=("$python" -I -S "$jobctl" mpi --rank -- "${rank[@]}")
    export JOBC_MPI_RANK="cd -- ${PWD@Q} && exec ${words[*]@Q}" # of this node: mpirun itself would take a lone `:` as its own
    if [[ -n ${GLOO_SOCKET_IFNAME:-} ]]; then
      export OMPI_MCA_oob_tcp_if_include=${OMPI_MCA_oob_tcp_if_include:-$GLOO_SOCKET_IFNAME}
      export OMPI_MCA_btl_tcp_if_include=${OMPI_MCA_btl_tcp_if_include:-$GLOO_SOCKET_IFNAME}
    fi
    hosts=$(uname -n):$procs # the others need no name that resolves
    launch=(
      "$python" -I -S "$jobctl" mpi --head "$rendezvous_timeout_s" --
      mpirun
      --host "$hosts"
      -np "$((nodes * procs))"
      --map-by slot # ranks in the order of the nodes
      --bind-to none # else two ranks get a core each, for all their threads and data loaders
      --leave-session-attached
      --mca plm rsh # and nothing of a scheduler: the nodes are here already
      --mca plm_rsh_no_tree_spawn 1
      --mca ras '^slurm,tm,lsf,gridengine,loadleveler,alps'
      bash -c 'eval "$JOBC_MPI_RANK"'
    )
    ;;
  *) fail 65 "launcher $launcher is not known on this node" 'launcher=torchrun or launcher=spawn' ;;
esac
if [[ -n $wait_for_head ]] && ((JOBC_NODE_RANK > 0)); then # until node 0 answers; says why when it does not
  launch=("$python" -I -S "$jobctl" reach "$JOBC_HEAD_ADDR" "$JOBC_HEAD_PORT" "$rendezvous_timeout_s" -- "${launch[@]}")
fi
exec "$python" -I -S "$jobctl" supervise --max-restarts="$max_restarts" -- "${launch[@]}"
