#!/usr/bin/env bash
# pyxis.sh: the container of job job, which Pyxis makes on each node (github.com/NVIDIA/pyxis).
# Sourced by job.sbatch. `pyxis.sh RUN_DIR PROJECT` prints the options of srun, each with a NUL after it, for jobctl.
# shellcheck disable=SC1091,SC2034,SC2154 # variables go from one part to another

# pyxis_options: sets `container`, options of srun. What the node script exports inside wins over the image and over
# enroot's hooks, so no --container-env is needed.
pyxis_options() {
  local folder mounts=(
    /lustre/models:/models:ro
    /data:/data
  )
  export JOBC_SECRETS_ROOT=$HOME/.jobc/secrets # an image may say another HOME
  [[ -n ${project:-} ]] || project=$(key "$run/state/run" project)
  for folder in /tmp "$project" "$(under_project .)" "$run" "$artifact" "$(secrets_of "$run")" '~/wandb'; do
    folder=$(realpath --no-symlinks -- "${folder/#\~\//$HOME/}")
    if [[ ! -e $folder ]]; then continue; fi
    [[ ! $folder =~ [[:space:],:\\] ]] ||
      die 65 "Pyxis cannot mount $folder" 'it has no way to say a path with spaces, commas, colons or backslashes'
    mounts+=("$folder:$folder")
  done
  container=(
    --container-image='nvcr.io#nvidia/pytorch:25.01-py3'
    --container-mounts="$(IFS=, && printf '%s' "${mounts[*]}")"
    --no-container-mount-home
    --container-remap-root
  )
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  artifact=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
  source "$artifact/lib/run.sh"
  run=$1 project=$2
  pyxis_options
  printf '%s\0' "${container[@]}"
fi
