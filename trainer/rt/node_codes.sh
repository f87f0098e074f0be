# shellcheck shell=bash disable=SC2034,SC2154 # variables go from one part to another
# node_codes.sh: sourced after run.sh. The exit codes of the nodes of a run.

# worst_exit RUN ATTEMPT [STATUS NODES]: of all nodes the code that most deserves attention. The STATUS of what started
# them counts only where one of the NODES has left none: a signal may have hit it on its way out.
worst_exit() {
  local wanted codes
  read_codes "$1" "$2"
  for wanted in 65 71 1 69 75; do
    if [[ $codes == *"=$wanted "* ]]; then
      echo "$wanted"
      return
    fi
  done
  if ((${3:-0} && $(num_ended "$1" "$2") < ${4:-1})); then echo 1; else echo 0; fi
}

# read_codes RUN ATTEMPT: sets `codes` to ` first=CODE node_00=CODE … `, of the nodes that have left their exit code.
read_codes() {
  local file text
  codes=' '
  for file in "$1/exit/$2"/{first,node_*}; do
    read_text "$file"
    text=${text%%$'\n'*}
    if is_number "$text"; then codes+="${file##*/}=$text "; fi
  done
}

# num_ended RUN ATTEMPT: how many nodes have left their exit code.
num_ended() {
  find "$1/exit/$2" -name 'node_*' -printf . 2>/dev/null | wc -c
}
