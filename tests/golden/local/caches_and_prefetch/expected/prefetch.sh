#!/usr/bin/env bash
# prefetch.sh: downloads what job cached reads from the internet, in the environment of its ranks.
# usage: prefetch.sh
#   Run it where there is internet and the nodes' folder for downloads is seen. Again costs little: what is there stays.
#   exit 0 = all is there

# shellcheck disable=SC1091,SC2154 # run.sh sets what is not set here
if [[ $- != *p* || -v POSIXLY_CORRECT ]]; then POSIXLY_CORRECT=1 && exec env -u POSIXLY_CORRECT bash -p -- "$0" "$@"; fi # not the modes and functions of the calling shell
set -euo pipefail
artifact=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
source "$artifact/lib/run.sh"

case ${1:-} in
  '') ;;
  -h | --help) show_help && exit ;;
  *) bad_option "$1" ;;
esac

# in_job COMMAND WORD…: as a rank would run it, but with the internet.
in_job() {
  JOBC_ONLINE=yes JOBC_RUN_DIR='' bash "$artifact/node.sh" 0 shell "$@"
}

# hub WORD…: `hf download`, which was huggingface-cli before huggingface_hub 0.34.
hub() {
  if in_job sh -c 'command -v hf' >/dev/null; then
    in_job hf download "$@"
  elif in_job sh -c 'command -v huggingface-cli' >/dev/null; then
    in_job huggingface-cli download "$@"
  else
    die 1 'there is no hf in the environment of the job' 'pip install huggingface_hub there'
  fi
}

failed=()

# fetch NAME COMMAND…: goes on with the others when one fails.
fetch() {
  printf '== %s\n' "$1"
  ("${@:2}") || failed+=("$1")
}

fetch openai-community/gpt2 hub openai-community/gpt2 --repo-type model
fetch allenai/c4 hub allenai/c4 --repo-type dataset --revision v1.1
fetch 'python3 get.py --to ~/x' in_job bash -c 'python3 get.py --to ~/x'

if [[ -n ${failed[*]:-} ]]; then die 1 "not there: ${failed[*]}" 'the lines above say why'; fi
