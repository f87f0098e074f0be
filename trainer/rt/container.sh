# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# container.sh: starts node.sh once more, inside the job's container. Sourced by the node.sh of a job that has one.
# In: runtime, image, mounts, container_options, container_env and shm_bytes, as node.sh states them.
# All of jobc runs inside, supervisor and scripts as well. So that jobctl stop and jobctl status work from outside, the process
# numbers, the network, the host's name, the user and the paths are in there what they are out here.
# Source: docker run, Docker 20.10 to 28; apptainer exec, Apptainer 1.1 to 1.5.

# Variables that go along whenever they are set here. The job's own are exported by node.sh, inside.
along='JOBC_*|SLURM_*|NCCL_*|RCCL_*|TORCH_*|UCX_*|FI_*|CUDA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES
|GPU_DEVICE_ORDINAL|HOME|USER|LOGNAME|TMPDIR|TERM|LANG|LC_ALL|TZ|@(http|https|no|all)_proxy|@(HTTP|HTTPS|NO|ALL)_PROXY'
along=${along//$'\n'/}

# enter_container RANK PAYLOAD WORD…: becomes node.sh in the container; does not return.
enter_container() {
  local options=() start=() binds=() names=() said
  [[ $runtime != apptainer || $image == *://* ]] || image=$(under_project "$image")
  "need_$runtime"
  see_folders
  JOBC_STARTER="$$ $(start_ticks $$)" # supervise.py ends the node when that process is gone
  export JOBC_STARTER JOBC_INSIDE=${lacks:-0}
  mapfile -t names < <(names_along)
  "${runtime}_words"
  if ! said=$("${options[@]}" "${start[@]}" -c : 2>&1 </dev/null); then
    fail 65 "image $image does not start on $(uname -n): $(reason "$said")" "$(remedy "$said")"
  fi
  if [[ $payload == preflight ]]; then echo "ok    image $image starts under $runtime"; fi
  "enter_$runtime" "$here/node.sh" "$@"
}

# ---- what both have in common

# see_folders: sets `binds`. A missing folder of the job's own is left out: not every job has all of them.
see_folders() {
  local -A seen=()
  local folder place
  for ((place = 0; place < ${#mounts[@]}; place += 3)); do
    [[ -e ${mounts[place]} ]] || fail 65 "no ${mounts[place]} on $(uname -n)" 'mounts or storage.data names it; every node needs it'
    bind "${mounts[@]:place:3}"
  done
  for folder in "$project" "$(under_project "$code_root")" "$(existing "${JOBC_RUN_ROOT:-$project}")" \
    "${TMPDIR:-/tmp}" "${JOBC_INIT_FROM:-}" "$JOBC_RUN_DIR" "$here"; do
    if [[ ! -d $folder ]]; then continue; fi
    folder=$(realpath --no-symlinks -- "$folder")
    if [[ $folder != / ]]; then bind "$folder" "$folder" rw; fi
  done
}

# bind SOURCE TARGET rw|ro: the first one for a target counts. The value is a line of CSV, in both runtimes.
bind() {
  local value="type=bind,\"source=${1//\"/\"\"}\",\"target=${2//\"/\"\"}\""
  if [[ -n ${seen[$2]:-} ]]; then return; fi
  seen[$2]=yes
  if [[ $3 == ro ]]; then value+=,readonly; fi
  binds+=("--mount=$value")
}

# existing FOLDER: it, or the nearest above it that is there.
existing() {
  local folder=$1
  while [[ ! -d $folder ]]; do folder=$(dirname -- "$folder"); done
  printf '%s' "$folder"
}

# names_along: of the exported variables that go into the container, one a line.
names_along() {
  local name
  while IFS= read -r name; do
    if [[ $name == @($along) || " ${container_env[*]} " == *" $name "* ]]; then printf '%s\n' "$name"; fi
  done < <(compgen -e)
}

# start_ticks PID: when it started (proc(5), field 22 of stat).
start_ticks() {
  local stat fields
  stat=$(<"/proc/$1/stat")
  read -ra fields <<<"${stat##*) }"
  printf '%s' "${fields[19]}"
}

# reason TEXT, remedy TEXT: the line in which a runtime says what is wrong, and what to do about it.
reason() {
  grep -m 1 -E 'rror|FATAL' <<<"$1" || grep -m 1 . <<<"$1"
}
remedy() {
  case $1 in
    *'executable file not found'*) echo 'jobc needs bash and Python 3.10 or newer in the image' ;;
    *'device driver'*) echo 'install the NVIDIA Container Toolkit on that host' ;;
    *) echo 'check image, mounts and container.options' ;;
  esac
}

# ---- Docker

need_docker() {
  local said
  type -P docker >/dev/null || fail 65 "no docker on $(uname -n)" 'install it there, or container=apptainer'
  said=$(docker version --format '{{.Server.Version}}' 2>&1) ||
    fail 65 "docker does not answer on $(uname -n): $(reason "$said")" 'does its daemon run, and are you in the group docker?'
  if docker image inspect "$image" >/dev/null 2>&1; then return; fi
  if [[ $payload == check ]]; then exit 0; fi # the start gets it, where one sees that it takes its time
  printf 'jobc: %s gets the image %s\n' "$(uname -n)" "$image" >&2
  said=$(docker pull --quiet "$image" 2>&1) || fail 65 "no image $image on $(uname -n): $(reason "$said")" 'check its name; docker login for a private one'
}

# docker_words: sets `options` and `start`: before and after what a single container adds. No value of a variable is in
# them: `ps` shows a command line to everybody.
docker_words() {
  local word
  options=(
    docker run --rm --log-driver=none --workdir="$PWD"
    --pid=host --network=host --userns=host --user="$(id -u):$(id -g)"
  )
  for word in $(id -G); do options+=(--group-add="$word"); done # shared storage goes by groups
  if [[ -n ${shm_bytes:-} ]]; then options+=(--shm-size="$shm_bytes"); else options+=(--ipc=host); fi
  for word in "${names[@]}"; do options+=(--env="$word"); done
  options+=("${binds[@]}")
  if ((gpus)); then docker_gpus; fi
  if [[ -d /dev/infiniband ]]; then options+=(--device=/dev/infiniband --ulimit=memlock=-1:-1); fi
  options+=("${container_options[@]}")
  start=(--entrypoint=bash "$image")
}

docker_gpus() {
  local device
  if [[ -e /dev/nvidiactl ]]; then
    options+=(--gpus=all) # CUDA_VISIBLE_DEVICES goes along, and means the same inside
  elif [[ -e /dev/kfd ]]; then
    options+=(--device=/dev/kfd --device=/dev/dri --security-opt=seccomp=unconfined) # as ROCm's manual has it
    for device in /dev/kfd /dev/dri/render*; do options+=(--group-add="$(stat -c %g -- "$device")"); done
  fi
}

# enter_docker WORD…: a container that trains has the name of its node's run: there is one, also without file locks.
enter_docker() {
  local name more=() sum
  case $payload in
    train | smoke)
      sum=$(cksum <<<"$JOBC_RUN_DIR")
      name=jobc-$(basename -- "$JOBC_RUN_DIR")-$JOBC_ATTEMPT-node$JOBC_NODE_RANK-${sum%% *}
      docker rm -- "$name" >/dev/null 2>&1 || true # one that has ended; one that runs stays
      if docker container inspect -- "$name" >/dev/null 2>&1; then
        die 1 "the container $name runs already on $(uname -n)" "docker stop $name"
      fi
      more=(--name="$name")
      ;;
    shell)
      more=(--interactive)
      if [[ -t 0 && -t 1 ]]; then more+=(--tty); fi
      ;;
  esac
  exec "${options[@]}" "${more[@]}" "${start[@]}" "$@"
}

# ---- Apptainer, or SingularityCE 3.10 or later, which has the same options

need_apptainer() {
  apptainer=$(type -P apptainer || type -P singularity) ||
    fail 65 "no apptainer or singularity on $(uname -n)" 'python.modules=[apptainer] loads it where the site has it as a module'
  [[ $image == *://* || -e $image ]] || fail 65 "no image $image on $(uname -n)" "${apptainer##*/} pull $image docker://NAME:TAG"
}

# apptainer_words: as docker_words. Of this shell's environment only what is named goes along, and as it is: without
# --no-eval a shell expands the values.
apptainer_words() {
  local name prefix=APPTAINERENV_
  if [[ $apptainer == */singularity ]]; then prefix=SINGULARITYENV_; fi
  options=("$apptainer" exec --cleanenv --no-eval --pwd="$PWD" "${binds[@]}")
  for name in "${names[@]}"; do
    if [[ $name != HOME ]]; then export "$prefix$name=${!name}"; fi # it has its own way with HOME
  done
  if ((gpus)) && [[ -e /dev/nvidiactl ]]; then options+=(--nv); fi
  if ((gpus)) && [[ -e /dev/kfd ]]; then options+=(--rocm); fi
  options+=("${container_options[@]}")
  start=("$image" bash)
}

# enter_apptainer WORD…: with a terminal it leaves all signals to that; one for this process alone would be lost.
enter_apptainer() {
  if [[ $payload != shell && (-t 0 || -t 1 || -t 2) ]]; then
    exec "${options[@]}" "${start[@]}" "$@" </dev/null > >(trap '' INT && cat) 2> >(trap '' INT && cat >&2)
  fi
  exec "${options[@]}" "${start[@]}" "$@"
}
