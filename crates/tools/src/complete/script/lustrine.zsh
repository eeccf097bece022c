#compdef lustrine @TOOLS@
# zsh completion of lustrine and its tools: @TOOLS@

# @OWN@

# Completes the words of $1, a tool or lustrine before one, as the program says; fails if it says
# nothing.
_lustrine_ask() {
    local line
    local -a said whole begun
    said=("${(@f)$(lustrine complete $1 -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n "${said[1]}" ]] || return 1
    for line in "${said[@]}"; do
        case $line in
            (:file) _files ;;
            (:*) _message "${line#:}" ;;
            (*=$'\t'*) begun+=("${line%%$'\t'*}") ;;
            (*) whole+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (( ${#whole} )) && _describe -t words "$1" whole
    (( ${#begun} )) && compadd -S '' -- "${begun[@]}"
    return 0
}

_lustrine() {
    case ${words[1]:t} in
        (@CASES@) _lustrine_ask ${words[1]:t}; return ;;
    esac
    if (( CURRENT > 2 )); then
        case ${words[2]} in
            (@CASES@) _lustrine_ask lustrine && return ;;
        esac
    fi
    _lustrine_own "$@"
}

if [[ ${funcstack[1]} == _lustrine ]]; then
    _lustrine "$@"
else
    compdef _lustrine lustrine @TOOLS@
fi
