"""Scripts that connect shells with `towline __complete`."""

BASH = """\
_towline() {
  local cur=${COMP_LINE:0:COMP_POINT} IFS=$'\\n' words found
  read -ra words -d '' <<< "${cur//[[:space:]]/$'\\n'}"
  [[ $cur == *[[:space:]] ]] && words+=("")
  found=$(towline __complete "${words[@]:1}" 2>/dev/null)
  if [[ $? == 3 ]]; then
    COMPREPLY=($(compgen -f -- "${words[-1]}"))
    compopt -o filenames
    return
  fi
  local prefix=${words[-1]}
  prefix=${prefix%"${prefix##*[:=]}"}
  [[ $COMP_WORDBREAKS == *:* ]] || prefix=
  COMPREPLY=(${found})
  COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
}
complete -F _towline towline
"""

ZSH = """\
#compdef towline
_towline() {
  local -a found
  found=("${(@f)$(towline __complete "${(@)words[2,CURRENT]}" 2>/dev/null; print -r -- "=$?")}")
  if [[ ${found[-1]} == '=3' ]]; then
    _files
  else
    compadd -- ${found[1,-2]:#}
  fi
}
compdef _towline towline
"""

FISH = """\
function __towline_complete
    set -l words (commandline -opc) (commandline -ct)
    towline __complete $words[2..-1] 2>/dev/null
    if test $status -eq 3
        __fish_complete_path (commandline -ct)
    end
end
complete -c towline -f -a '(__towline_complete)'
"""
