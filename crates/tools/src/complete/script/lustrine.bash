# bash completion of lustrine and its tools: @TOOLS@

# @OWN@

# Completes the words of $1, a tool or lustrine before one, as the program says; fails if it says
# nothing.
_lustrine_ask() {
    local word text about said= glue=
    local -a words=()
    # bash parts words at = : and @; ours are whole.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ ${#words[@]} -gt 0 && ( -n $glue || $word =~ ^[=:@]+$ ) ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        if [[ $word =~ ^[=:@]+$ ]]; then glue=1; else glue=; fi
    done
    # What bash puts in the place of the last part is without those before it.
    local typed=$word before
    [[ -n $glue ]] && typed=
    before=${words[${#words[@]} - 1]}
    before=${before%"$typed"}
    COMPREPLY=()
    while IFS=$'\t' read -r text about; do
        said=1
        case $text in
            :file)
                compopt -o filenames 2>/dev/null
                while read -r text; do COMPREPLY+=("$text"); done < <(compgen -f -- "$typed")
                ;;
            :*) ;;
            *) COMPREPLY+=("${text#"$before"}") ;;
        esac
    done < <(lustrine complete "$1" -- "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
    [[ -n $said ]]
}

_lustrine_any() {
    case ${COMP_WORDS[0]##*/} in
        @CASES@) _lustrine_ask "${COMP_WORDS[0]##*/}" || true; return ;;
    esac
    if [[ $COMP_CWORD -gt 1 ]]; then
        case ${COMP_WORDS[1]} in
            @CASES@) _lustrine_ask lustrine && return ;;
        esac
    fi
    _lustrine_own "$@"
}

complete -F _lustrine_any lustrine @TOOLS@
