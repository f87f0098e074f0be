set -o pipefail
