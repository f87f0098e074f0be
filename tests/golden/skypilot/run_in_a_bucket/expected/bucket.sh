# shellcheck shell=bash disable=SC2034 # variables go from one part to another
# bucket.sh: the object store that has the runs of job bucket. Sourced where somebody talks to it; depot.py does.

export JOBC_STORE=s3://my-bucket/runs
export JOBC_STORE_ENDPOINT='' # Amazon's
export JOBC_STORE_REGION=eu-north-1

# use_bucket: on a node, sets `python` for depot(). Who may use the bucket is said by variables of this job that begin with
# AWS_, or by the role of the node (credentials.py).
use_bucket() {
  export AWS_PROFILE=training
  secret_env AWS_ACCESS_KEY_ID AWS_ACCESS_KEY_ID
  secret_env AWS_SECRET_ACCESS_KEY AWS_SECRET_ACCESS_KEY
  find_python python3 ''
}
