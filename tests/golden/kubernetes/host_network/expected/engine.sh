# shellcheck shell=bash disable=SC1091,SC2034,SC2154 # variables go from one part to another
# engine.sh: what is Kubernetes' own in job ports: takes the place of functions of run.sh of the same name.
# Sourced by this_job. On this machine a run is a record (records.sh); the run itself, with all its logs, is on the storage of
# the pods. state/job_ATTEMPT has the object that was made: uid, object, kind, companions, nodes, context, namespace. It may be
# of another compile of this job, so whoever asks about a run asks for what is written there.

source "$artifact/lib/records.sh"

own_object=ports-da925615 # what this artifact makes: of the job.batch, its ConfigMap and its Service
run_root=/shared/runs
start_timeout_s=1800

# ---- the cluster

# choose_cluster: sets object, kind, companions and nodes to those of this artifact; context and namespace as the spec says, else
# as kubectl has them now.
choose_cluster() {
  object=$own_object
  kind=job.batch
  companions=configmap,service # what is made beside it
  nodes=2
  type -P kubectl >/dev/null || die 1 'kubectl is not found' 'put it on PATH; https://kubernetes.io/docs/tasks/tools'
  context=''
  namespace=''
  if [[ -z $context ]]; then context=$(kubectl config current-context 2>/dev/null) || context=''; fi
  if [[ -z $namespace ]]; then
    namespace=$(kubectl config view --minify ${context:+--context="$context"} --output=jsonpath='{..namespace}' 2>/dev/null) || true
    namespace=${namespace:-default}
  fi
}

# use_object RUN: sets them to those of the run's newest attempt, whatever this artifact makes and kubectl's current context is.
use_object() {
  local file
  file=$(job_file "$1")
  object=$(key_word "$file" object)
  kind=$(key_word "$file" kind)
  companions=$(key_word "$file" companions)
  nodes=$(key_number "$file" nodes 1)
  [[ -n $object && $kind == @(job.batch|jobset.jobset.x-k8s.io|trainjob.trainer.kubeflow.org) && $companions == @(configmap,service|configmap|configmap,trainingruntime.trainer.kubeflow.org) ]] ||
    die 1 "$file does not name an object, its kind and its companions" 'submit.sh writes them'
  context=$(key "$file" context)
  namespace=$(key "$file" namespace)
}

# record_object: of `run`, what choose_cluster and create_objects have set.
record_object() {
  record_job "$attempt" "uid=$uid" "object=$object" "kind=$kind" "companions=$companions" "nodes=$nodes" "context=$context" "namespace=$namespace"
}

# k WORD…: kubectl, there.
k() {
  kubectl ${context:+--context="$context"} --namespace="$namespace" "$@"
}

# where_it_is: in words.
where_it_is() {
  echo "namespace $namespace${context:+ of context $context}"
}

# objects SUFFIX PAYLOAD RUN_ID FORK_OF: the manifests of this artifact; SUFFIX is appended to every name.
objects() {
  local owner
  owner=$(printf '%s@%s' "${USER:-$UID}" "$(uname -n)" | tr -cd '[:alnum:]@._-')
  kubectl kustomize "$artifact" | sed -E \
    -e "s/\b$own_object\b/$own_object$1/g" \
    -e "/name: JOBC_PAYLOAD$/ { n; s/value: .*/value: $2/ }" \
    -e "/name: JOBC_RUN_ID$/ { n; s/value: .*/value: \"$3\"/ }" \
    -e "/name: JOBC_FORK_OF$/ { n; s/value: .*/value: \"$4\"/ }" \
    -e "s/jobc\/owner: .*/jobc\/owner: $owner/"
}

# documents is|isnt KIND: of the manifests on stdin. A line of the ConfigMap's text may end in ---, but never is that.
documents() {
  awk -v wanted="$1" -v kind="$2" '
    function flush(  i) { if ((own == kind) == (wanted == "is")) for (i = 1; i <= n; i++) print line[i]; n = 0; own = "" }
    $0 == "---" { flush() }
    /^kind: / { own = $2 }
    { line[++n] = $0 }
    END { flush() }'
}

# try_create [WORD]: the objects of the manifests on stdin; prints only what kubectl says against them.
try_create() {
  { k create "$@" --filename=- >/dev/null; } 2>&1
}

# ask_server PAYLOAD RUN_ID FORK_OF: would it take the objects? Prints why not. They have names of their own in this question, for
# what is there under the others would be in the way.
ask_server() {
  local manifests
  manifests=$(objects -dry "$@") || { echo "kubectl cannot read $artifact/kustomization.yaml" && return 1; }
  try_create --dry-run=server <<<"$manifests"
}

# refuse_unwelcome PAYLOAD RUN_ID FORK_OF: before anything is deleted for them or made.
refuse_unwelcome() {
  local said
  said=$(ask_server "$@") ||
    die 1 "the cluster refuses the job in $(where_it_is): $(tail -c 600 <<<"$said")" 'preflight.sh --queue-only asks again'
}

# create_objects SUFFIX PAYLOAD RUN_ID FORK_OF: sets `uid`.
# The ConfigMap and the Service belong to the job.batch, and go when it is deleted.
create_objects() {
  local manifests said version own_kind owner target
  manifests=$(objects "$@") || die 1 "kubectl cannot read $artifact/kustomization.yaml"
  if ! said=$(try_create <<<"$manifests"); then
    delete_objects "$1"
    die 1 "the cluster refused the job in $(where_it_is): $(tail -c 600 <<<"$said")"
  fi
  IFS=$'\t' read -r version own_kind uid < <(k get "$kind" "$object$1" --output=jsonpath='{.apiVersion}{"\t"}{.kind}{"\t"}{.metadata.uid}{"\n"}')
  owner=$(printf '{"apiVersion":"%s","kind":"%s","uid":"%s","name":"%s"}' "$version" "$own_kind" "$uid" "$object$1")
  while read -r target; do
    k patch "$target" --type=merge --patch='{"metadata":{"ownerReferences":['"$owner"']}}' >/dev/null
  done < <(k get "$companions" --selector="jobc/job=$object$1" --output=name)
}

# delete_objects SUFFIX: and waits until the pods are gone, for a name of theirs must not lead to an old one.
delete_objects() {
  k delete "$kind" "$object$1" --ignore-not-found --cascade=foreground >/dev/null
  delete_companions "$1"
}

delete_companions() {
  k delete "$companions" --selector="jobc/job=$object$1" --ignore-not-found >/dev/null
}

# look SUFFIX: sets uid, owner, run_there and conditions (TYPE REASON MESSAGE, tabs between, one a line) of the object.
look() {
  local said
  uid='' owner='' run_there='' conditions=''
  said=$(k get "$kind" "$object$1" --ignore-not-found \
    --output=jsonpath='{.metadata.uid}{"\t"}{.metadata.annotations.jobc/owner}{"\n"}{range .status.conditions[?(@.status=="True")]}{.type}{"\t"}{.reason}{"\t"}{.message}{"\n"}{end}' 2>&1) ||
    die 1 "cannot ask the cluster in $(where_it_is): ${said##*: }" 'check the connection with kubectl cluster-info'
  if [[ -n $said ]]; then
    IFS=$'\t' read -r uid owner <<<"$said"
    conditions=$(tail -n +2 <<<"$said")
  fi
  if [[ $kind == jobset.* ]] && has_ended; then conditions=$(job_deadline "$1")$'\n'$conditions; fi
}

# job_deadline SUFFIX: the conditions of the Job of the JobSet, which does not say itself that it was the deadline.
job_deadline() {
  k get jobs --selector="jobset.sigs.k8s.io/jobset-name=$object$1" \
    --output=jsonpath='{range .items[*].status.conditions[?(@.reason=="DeadlineExceeded")]}{.type}{"\t"}{.reason}{"\t"}{.message}{"\n"}{end}'
}

# has_ended: the object that look() saw.
has_ended() {
  grep -qE $'^(Complete|Completed|Failed)\t' <<<"$conditions"
}

# pods SUFFIX: INDEX NAME PHASE NODE EXIT WAITS_FOR INIT GONE_AT of each, bars between, newest last. EXIT, WAITS_FOR: of the
# container of the ranks; INIT: the init containers that failed; GONE_AT: when one that was deleted has to be gone.
pods() {
  local own='.status.containerStatuses[?(@.name=="node")].state' init='.status.initContainerStatuses[?(@.state.terminated.exitCode!=0)]'
  k get pods --selector="jobc/job=$object$1" --sort-by=.metadata.creationTimestamp \
    --output=jsonpath='{range .items[*]}{.metadata.labels.batch\.kubernetes\.io/job-completion-index}|{.metadata.name}|{.status.phase}|{.spec.nodeName}|{'"$own"'.terminated.exitCode}|{'"$own"'.waiting.reason}{.status.conditions[?(@.reason=="Unschedulable")].message}|{range '"$init"'}init container {.name} ended with {.state.terminated.exitCode} {end}|{.metadata.deletionTimestamp}{"\n"}{end}'
}

# running_pods SUFFIX [INDEX]: their names.
running_pods() {
  pods "$1" | awk -F '|' -v index_="${2:-}" '$3 == "Running" && (index_ == "" || $1 == index_) { print $2 }'
}

# ---- the runs

# fetch_news RUN: how one ended whose object went before anybody looked: by its storage, when all nodes of its last attempt have
# left their code there. Through a pod, so not for each run of status.sh --all, and only as long as that starts soon.
fetch_news() {
  local file state engine_says said codes=() look='cd -- "$1/exit/$(ls -- "$1/artifact" | sort -n | tail -n 1)" && grep -hxE "[0-9]{1,3}" -- node_*'
  if observe "$1" || [[ $state != gone || -e $1/control/STOP ]]; then return 0; fi
  use_object "$1"
  said=$(
    exec 2>/dev/null
    lone_pod 60
    k exec "$own_object-shell" -- bash -c "$look" - "$(storage_of "$1")"
  ) || return 0
  if (($(grep -c . <<<"$said") == nodes)); then
    mapfile -t codes <<<"$said"
    jobctl status --run "$1" --codes "${codes[@]}"
  fi
}

# storage_of RUN [NODE]: its folder, in each pod the same.
storage_of() {
  printf '%s/%s/%s' "$run_root" "$job_name" "$(basename -- "$1")"
}

# keep_lone_pod: a lone_pod in each of the clusters that the runs were sent to, made once.
declare -gA has_pod=() # -g: a function sources this file
keep_lone_pod() {
  if [[ -z ${has_pod[$context/$namespace]:-} ]]; then lone_pod && has_pod[$context/$namespace]=yes; fi
}

# lone_pod [SECONDS]: a pod beside the job, with its image and its mounts, until this script ends; it starts within SECONDS,
# else within those of backend.start_timeout. It wants the job's ConfigMap, which may have gone with it.
at_exit='' # what removes those of all clusters
lone_pod() {
  local phase own='' tries=${1:-$start_timeout_s}
  k delete pod "$own_object-shell" --ignore-not-found >/dev/null
  if objects '' shell '' '' | documents is ConfigMap | k create --filename=- >/dev/null 2>&1; then own=yes; fi
  at_exit+=$(printf 'context=%q namespace=%q; k delete pod "$own_object-shell" --ignore-not-found --wait=false >/dev/null || true; ' "$context" "$namespace")
  if [[ -n $own ]]; then at_exit+='k delete configmap "$own_object" >/dev/null || true; '; fi
  # shellcheck disable=SC2064 # as it is now
  trap "$at_exit" EXIT
  k create --filename="$artifact/pod.yaml" >/dev/null || die 1 "cannot make a pod in $(where_it_is)"
  until phase=$(k get pod "$own_object-shell" --output=jsonpath='{.status.phase}') && [[ $phase != Pending ]]; do
    ((tries--)) || die 1 "pod $own_object-shell has not started" "kubectl --namespace=$namespace describe pod $own_object-shell"
    sleep 1
  done
}

# ---- the same pods for another purpose

# trial PAYLOAD: the pods of this job, under another name, doing something else; prints what each says, and removes them.
# The pods end well whatever they find, so that none of them is deleted with its output; they say their code.
trial() {
  local said until=$((SECONDS + start_timeout_s + 300)) id
  id=$(trial_id "$1")
  refuse_unwelcome "$1" "$id" ''
  delete_objects "-$1"
  trap 'delete_objects "-'"$1"'"' EXIT
  create_objects "-$1" "$1" "$id" ''
  while look "-$1" && ! has_ended; do
    if ((SECONDS >= until)); then
      k get pods --selector="jobc/job=$object-$1" --output=wide
      die 1 "the pods have not ended after $((start_timeout_s + 300)) s"
    fi
    sleep 1
  done
  said=$(k logs --selector="jobc/job=$object-$1" --tail=-1 --prefix | sed -E 's/^\[pod\/.*-([0-9]+)-[^-]*\/node\] /\1: /' | sort -s -t : -k 1,1n)
  printf '%s\n' "$said" | grep -v '^[0-9]*: jobc: exit of the payload' || true
  (($(grep -c '^[0-9]*: jobc: exit of the payload: 0$' <<<"$said") == nodes))
}
