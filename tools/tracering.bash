# bash completion for tracering                             -*- shell-script -*-

_tracering() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]} i
  COMPREPLY=()
  # Behind "--" stands a command line of its own.
  if [[ $command == record ]]; then
    for ((i = 2; i < COMP_CWORD; ++i)); do
      if [[ ${COMP_WORDS[i]} != -- ]]; then continue; fi
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      else
        mapfile -t COMPREPLY < <(compgen -c -f -- "$cur")
      fi
      return
    done
  fi
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W \
      "dump record ring stat --help --version" -- "$cur")
    return
  fi
  case $command:$prev in
    *:-o | *:--output | *:--socket)
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      compopt -o filenames
      return
      ;;
    record:-[bcsrtd] | stat:-[in] | *:--buffer | *:--stream | *:--rotate | \
      *:--trigger | *:--categories | *:--duration | *:--interval | *:--count)
      return
      ;;
  esac
  local options=--help
  case $command in
    dump) options+=" --json --summary" ;;
    record)
      options+=" --buffer --categories --compress --duration --output --quiet"
      options+=" --rotate --socket --stream --trigger --"
      ;;
    ring) options+=" --compress --output --summary" ;;
    stat) options+=" --count --interval --socket" ;;
  esac
  if [[ $cur == -* || $command == record || $command == stat ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    compopt -o filenames
  fi
}

complete -F _tracering tracering
