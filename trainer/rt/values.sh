# shellcheck shell=bash
# values.sh: part of run.sh. Values from files, names and the output of programs, which anybody may have written.
# Bash runs the command in `x[$(command)]` wherever it expects a number, awk and sh where they get a name to open. So a
# number comes from number or key_number, a word for a command line from key_word, and a file is read by read_text.

most_bytes=65536 # of a state file

# is_number VALUE: consists of 1 to 18 digits. It may begin with zeros: $((10#$VALUE)) is its value.
is_number() {
  [[ -n $1 && ${#1} -le 18 && $1 != *[!0123456789]* ]]
}

# number VALUE [DEFAULT]: prints VALUE without leading zeros if it is a number, else DEFAULT.
number() {
  if is_number "${1:-}"; then
    printf '%s' "$((10#$1))"
  else
    printf '%s' "${2:-}"
  fi
}

# key_number FILE KEY [DEFAULT]: prints the value of KEY in FILE as number does.
key_number() {
  number "$(key "$1" "$2")" "${3:-}"
}

# key FILE NAME: prints the value of the first `NAME=value` line of FILE.
key() {
  local text
  read_text "$1"
  text=$'\n'$text
  if [[ $text == *$'\n'"$2="* ]]; then
    text=${text#*$'\n'"$2="}
    printf '%s' "${text%%$'\n'*}"
  fi
}

# read_text FILE: sets `text` to the content of a regular file, without control characters: at most 64 KiB, up to a NUL.
# Empty for a symbolic link: whoever may write to a run folder could have it lead to a private file of this user.
# Starts no process, so that the files of a thousand nodes are read in a second.
read_text() {
  text=''
  if [[ -f $1 && -r $1 && ! -L $1 ]]; then IFS= read -r -d '' -n "$most_bytes" text <"$1" || true; fi
  remove_control_characters
}

control=$'\001\002\003\004\005\006\007\010\013\014\015\016\017\020\021\022\023\024\025\026\027\030\031\032\033\034\035\036\037\177'
control_c1=$'\200\201\202\203\204\205\206\207\210\211\212\213\214\215\216\217\220\221\222\223\224\225\226\227\230\231\232\233\234\235\236\237'

# remove_control_characters: from `text`, what a terminal takes for a command. Tab and newline stay; C1, and what turns the
# direction of text, is removed in UTF-8.
remove_control_characters() {
  text=${text//[$control]/}
  text=${text//$'\302'[$control_c1]/}
  text=${text//$'\342\200'[$'\252\253\254\255\256']/}
  text=${text//$'\342\201'[$'\246\247\250\251']/}
}

# printable TEXT: prints TEXT without control characters.
printable() {
  local text=$1
  remove_control_characters
  printf '%s' "$text"
}

# numbered_folders FOLDER: prints the numbers, in ascending order, of the folders N in FOLDER. N has no leading zeros.
numbered_folders() {
  LC_ALL=C find "$1" -mindepth 1 -maxdepth 1 -type d -regextype posix-extended -regex '.*/(0|[1-9][0-9]{0,17})' -printf '%f\n' | sort -n
}
