# shellcheck shell=bash disable=SC1090,SC1091 # files that only the nodes have
# setup.sh: the lines of `setup`, which each node of job setup runs before its ranks, in the project's folder.
# The first command that fails ends the start with exit code 65. A command that may fail: COMMAND || true

command -v module >/dev/null || . "${MODULESHOME:-/usr/share/modules}/init/bash"
module purge
module load cuda/12.4
source ~/envs/train/bin/activate
ulimit -l unlimited

: # a test such as `[ -d DIR ] && COMMAND` may be the last line
