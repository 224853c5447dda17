# SPDX-License-Identifier: Apache-2.0
# Completion of sallocctl's command line in bash. The words come from the command itself.
_sallocctl() {
    local current=${COMP_WORDS[COMP_CWORD]} words=
    if [ "$COMP_CWORD" = 1 ]; then
        words=$(sallocctl help --words 2>/dev/null)
    elif [[ $current == -* ]]; then
        words=$(sallocctl help --words "${COMP_WORDS[1]}" 2>/dev/null)
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    [[ ${COMPREPLY[0]:-} == *= ]] && compopt -o nospace
}
complete -o default -F _sallocctl sallocctl
