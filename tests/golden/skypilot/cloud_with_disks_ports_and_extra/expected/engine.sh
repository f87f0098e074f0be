# shellcheck shell=bash disable=SC1091,SC2034,SC2088,SC2154 # variables go from one part to another
# engine.sh: what is SkyPilot's own in job cloud: takes the place of functions of run.sh of the same name.
# Sourced by this_job. On this machine a run is a record (records.sh); the run itself is on the storage of the nodes.
# state/job_ATTEMPT has the job that SkyPilot made of it: kind (managed or nothing), cluster, id.

source "$artifact/lib/records.sh"

cluster=team-cluster
managed=''
nodes=1
run_root=runs
secret_variables=() # of this shell; SkyPilot keeps their values out of its output
local_files=('~/.ssh/deploy') # of backend.file_mounts

# ---- SkyPilot

export SKYPILOT_DISABLE_USAGE_COLLECTION=1 # sky sends its developers nothing about the task; backend.usage_collection=true lets it

# need_sky: dies when it is not here.
need_sky() {
  type -P sky >/dev/null || die 1 'sky is not found' "pip install 'skypilot[…]' with your infrastructure's name; https://docs.skypilot.co"
}

# need_sent: dies when what shall go along is not here: secrets, files.
need_sent() {
  local name file
  for name in "${secret_variables[@]}"; do
    [[ -n ${!name:-} ]] || die 65 "secret: the environment variable $name is not set" "export $name before submit.sh"
  done
  for file in "${local_files[@]}"; do
    [[ -e ${file/#\~\//$HOME/} ]] || die 65 "backend.file_mounts: no $file on $(uname -n)" 'bring it here, or leave it out'
  done
}

# nodes_see FOLDER: the nodes have nothing of this machine but what is sent.
nodes_see() {
  return 1
}

# stage ID ATTEMPT: what is sent of `run`, below a name of its own: SkyPilot removes nothing of what it sent before.
stage() {
  local to=$run/sent/$1
  try "create the folder $to" mkdir -p -- "$to/artifact"
  try "link the artifact to $to" cp -R --link -- "$run/artifact/$2" "$to/artifact/"
  if [[ -d $run/code && ! -d $to/code ]]; then try "link the code to $to" cp -R --link -- "$run/code" "$to/code"; fi
  : >"$run/sent/.skyignore" # else SkyPilot leaves out what a .gitignore in the code names
}

# launch PAYLOAD ID ATTEMPT FORK_OF: sends the artifact and the code of `run`, and starts them. Sets `id`: the number of the
# job, for sky queue.
launch() {
  local said name words=(launch --cluster "$cluster")
  if [[ -n $managed && $1 == train ]]; then words=(jobs launch --name "$(record_name "$2" "$3")"); fi
  stage "$2" "$3"
  words+=(--yes --detach-run --env "JOBC_ARTIFACT=$2/artifact/$3" --env "JOBC_PAYLOAD=$1" --env "JOBC_RUN_ID=$2" --env "JOBC_ATTEMPT=$3" --env "JOBC_FORK_OF=$4")
  for name in "${secret_variables[@]}"; do words+=(--secret "$name"); done
  said=$(cd -- "$run/sent" && sky "${words[@]}" "$2/artifact/$3/task.sky.yaml" 2>&1 | tee -a -- /dev/stderr) ||
    die 1 'SkyPilot does not take the job; its words are above' 'preflight.sh --queue-only asks it once more; sky check shows what is enabled'
  id=$(sed -nE 's/.*(Job submitted, ID: |Managed Job ID: |Job ID: )([0-9]+).*/\2/p' <<<"$said" | tail -n 1)
  [[ -n $id ]] || die 1 'SkyPilot has not said the number of the job' 'sky queue, or sky jobs queue, shows it'
}

# record_name RUN_ID ATTEMPT: of a managed job.
record_name() {
  printf '%s-%s-%s' "$cluster" "$1" "$2" | tr -c 'A-Za-z0-9\n-' '-'
}

# cluster_status [CLUSTER]: UP, STOPPED, INIT; nothing when there is none. It asks the infrastructure, for a cluster may have
# ended by itself.
cluster_status() {
  sky status --refresh --output json "${1:-$cluster}" 2>/dev/null | awk -F '[:,]' '/"status":/ && !n++ { gsub(/[ "]/, "", $2); print $2 }'
}

# on_node CLUSTER NODE WORD…: a command there, through the ssh that SkyPilot sets up for each cluster.
on_node() {
  local host=$1 config=$HOME/.sky/generated/ssh/$1 terminal=()
  [[ -n $1 ]] || return 1 # the record names no cluster
  if (($2 > 0)); then host+=-worker$2; fi
  if [[ -t 0 && -t 1 ]]; then terminal=(-t); fi
  if [[ -f $config ]]; then terminal+=(-F "$config"); fi
  shift 2
  ssh "${terminal[@]}" -o BatchMode=yes -o LogLevel=ERROR -- "$host" "$(printf '%q ' "$@")"
}

# ---- the runs

# record_launch ATTEMPT ID: what launch() has made of that attempt of `run`.
record_launch() {
  record_job "$1" "kind=${managed:+managed}" "cluster=$cluster" "id=$2"
}

# storage_of RUN [NODE]: its folder, on each node the same; what is not absolute is below their home.
storage_of() {
  printf '%s/%s/%s' "${run_root#\~/}" "$job_name" "$(basename -- "$1")"
}

# ---- the same nodes for another purpose

# trial PAYLOAD: the nodes of this job doing something else, on its cluster; prints what each says; the cluster stays, for the
# job. False when one of them fails.
trial() {
  local id trial
  trial=$(trial_id "$1")
  need_sent
  create_temporary_run
  launch "$1" "$trial" 0 '' >&2
  managed=''
  record_launch 0 "$id"
  jobctl logs --run "$run" --follow >"$run/said" || true
  while is_live "$run"; do sleep 1; done
  grep -E '^[0-9]+: ' "$run/said" | grep -vE '^[0-9]+: jobc: node [0-9]+ ends with' || true
  [[ $(run_code "$run") == 0 ]]
}
