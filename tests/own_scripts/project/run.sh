#!/bin/bash
set -e
source settings.sh
mkdir -p logs
exec python -m pkg.cli train-model "$@" | tee "logs/rank_$RANK.txt"
