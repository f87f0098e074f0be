"""Shell commands for hosts that have no jobc files yet. Each command is run as `sh -c COMMAND ARGUMENT…`."""

from __future__ import annotations

# RUN MARK: unpack stdin into RUN, which must not exist yet or must be this run. MARK is the checksum of state/run
RECEIVE = r"""
set -eu
run=$0 mark=$1 made="" new=""
fail() {
  if [ -n "$new" ]; then chmod -R u+w -- "$new" && rm -rf -- "$new"; fi
  if [ -n "$made" ]; then rm -rf -- "$run"; fi
  echo "FAIL  $2"
  exit "$1"
}
if [ -e "$run/state/mirror" ]; then exit 0; fi
said=$(mkdir -p -- "${run%/*}" 2>&1) || fail 1 "cannot create $run: ${said##*: }"
if said=$(mkdir -- "$run" 2>&1); then
  made=yes
elif [ -e "$run" ] || [ -L "$run" ]; then
  # hosts may share this storage: then another host is about to write state/run
  for _ in 1 2 3 4 5; do if [ -e "$run/state" ] && [ ! -e "$run/state/run" ]; then sleep 1; fi; done
  if [ "$(cksum 2>/dev/null <"$run/state/run")" != "$mark" ]; then
    echo "FAIL  $run already exists and belongs to another run: it was not changed"
    exit 65
  fi
else
  fail 1 "cannot create $run: ${said##*: }"
fi
said=$(mkdir -p -- "$run/state" "$run/artifact" "$run/logs" "$run/control" 2>&1) || fail 1 "cannot write to $run: ${said##*: }"
new=$(mktemp -d "$run/.new.XXXXXX") || fail 1 "cannot write to $run"
said=$(tar -C "$new" -xf - 2>&1) || { said=$(echo "$said" | sed -n 1p) && fail 1 "cannot write to $run: ${said##*: }; is the disk full?"; }
if [ -e "$new/artifact" ]; then rm -f -- "$run/control/STOP"; fi
cd -- "$new"
for piece in state/* artifact/* code; do
  case $piece in
    *"*") ;;
    state/*) mv -f -- "$piece" "$run/$piece" ;;
    *) if [ -e "$piece" ] && [ ! -e "$run/$piece" ]; then mv -T -- "$piece" "$run/$piece" && { [ "$piece" = code ] || chmod -R a-w -- "$run/$piece"; }; fi ;;
  esac
done
cd -- "$run"
rm -rf -- "$new"
"""  # noqa: E501

# RUN MARK ATTEMPT: remove the run if nothing was started in it before this attempt; otherwise, remove only the attempt
REMOVE = r"""
if [ -e "$0/state/mirror" ] || [ "$(cksum 2>/dev/null <"$0/state/run")" != "$1" ]; then exit 0; fi
if [ "$2" = 0 ]; then gone=$0; else gone=$0/artifact/$2; fi
chmod -R u+w -- "$gone" && rm -rf -- "$gone"
"""

# RUN: if the run already has its code, print nothing; otherwise, print `code FOLDER`, where FOLDER is the code of this
# user's newest other run of the job
LAST_CODE = r"""
last=""
if [ -e "$0/code" ]; then exit; fi
command -v rsync >/dev/null || { echo "FAIL  rsync not found: install it, or use code=snapshot" >&2; exit 65; }
for state in "${0%/*}"/*/state/run; do
  if [ -O "${state%/state/run}" ] && [ -d "${state%/state/run}/code" ] && { [ -z "$last" ] || [ "$state" -nt "$last" ]; }; then last=$state; fi
done
echo "code ${last:+${last%/state/run}/code}"
"""  # noqa: E501

# RUN HOST: rename the code that rsync has copied
NAME_CODE = '[ -e "$0/code" ] || mv -- "$0/.code.$1" "$0/code"'

# FOLDER: unpack stdin into that secrets folder. Homes may be shared, so existing files are never truncated
KEEP_SECRETS = r"""
umask 077
to=$HOME/.jobc/secrets/$0
mkdir -p -- "$to" && [ -O "$to" ] && [ ! -L "$to" ] && chmod 700 -- "$to" && new=$(mktemp -d "$to.XXXXXX") && tar -C "$new" -xf - && mv -f -- "$new"/* "$to" && rmdir -- "$new"
"""  # noqa: E501

# FOLDER: remove the folder
FORGET_SECRETS = 'rm -rf -- "$HOME/.jobc/secrets/$0"'

# RUN ATTEMPT: pack node 0's rendezvous endpoint in this attempt, once it is known
MEETING = r"""
cd -- "$0/state" && grep -qsx "attempt=$1" head && grep -qsx "attempt=$1" link && tar -cf - head link
"""

# RUN NODE ATTEMPT: pack a host's records of its node: the state, how the node ended, and the host's time
STATE = r"""
cd -- "$0" 2>/dev/null && [ ! -e state/mirror ] && [ -e "state/$1" ] || exit 0
touch state/.now
set -- "state/$1" "exit/$2/$1" "exit/$2/first"
for file do
  shift
  if [ -e "$file" ]; then set -- "$@" "$file"; fi
done
tar -cf - state/.now "$@"
"""

# RUN FILE BYTE: print one of the run's files, starting at that byte (the first is 1)
REST_OF_FILE = '[ ! -e "$0/state/mirror" ] && [ -e "$0/$1" ] && tail -c "+$2" -- "$0/$1"'

# RUN: write the stop mark
MARK_STOPPED = r"""
if [ ! -d "$0/state" ]; then echo "FAIL  $0 does not exist here: was the run removed?"; exit 65; fi
mkdir -p -- "$0/control" && [ ! -L "$0/control/STOP" ] && touch -- "$0/control/STOP"
"""
