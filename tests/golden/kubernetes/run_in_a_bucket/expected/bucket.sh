# shellcheck shell=bash disable=SC2034 # variables go from one part to another
# bucket.sh: the object store that has the runs of job bucket. Sourced where somebody talks to it; depot.py does.

export JOBC_STORE=s3://my-bucket/team-a/runs
export JOBC_STORE_ENDPOINT=https://minio.example.org:9000
export JOBC_STORE_REGION=us-east-1

# use_bucket: on a node, sets `python` for depot(). Who may use the bucket is said by variables of this job that begin with
# AWS_, or by the role of the node (credentials.py).
use_bucket() {
  secret_k8s AWS_ACCESS_KEY_ID store/key
  secret_k8s AWS_SECRET_ACCESS_KEY store/secret
  find_python python3 ''
}
