# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# pyxis.sh: the container of job job, which Pyxis makes on each node (github.com/NVIDIA/pyxis).
# Sourced by engine.sh.

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
