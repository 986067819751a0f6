# Completion of baechi in bash. Verbs and flags come from the program's own help, names of components from its list.
_baechi() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
  local what= verb=() at
  case $before in
    --placer) what=placers ;;
    --objective) what=objectives ;;
    --importer) what=importers ;;
    --kind) what=devices ;;
    --link) what=links ;;
  esac
  if [[ -n $what ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("$program" list "$what" 2>/dev/null | sed -n 's/^  \([a-z0-9_]*\) .*/\1/p')" -- "$word")
    return
  fi
  for at in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $at == [a-z]* ]] || break
    "$program" "${verb[@]}" "$at" --help >/dev/null 2>&1 || break
    verb+=("$at")
  done
  local help verbs
  help=$("$program" "${verb[@]}" --help 2>/dev/null)
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(grep -oE '^  (-[a-z],)?--[a-z-]+' <<<"$help" | grep -oE -- '--[a-z-]+')" -- "$word")
  elif verbs=$(sed -nE '/^(Place|Sweep|Study|Validate|Files|Verbs).*:$/,/^$/s/^  ([a-z][a-z-]*) .*/\1/p' <<<"$help") && [[ -n $verbs ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _baechi baechi
