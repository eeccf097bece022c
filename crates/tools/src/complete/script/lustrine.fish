# fish completion of lustrine and its tools: @TOOLS@

# @OWN@

# The words of $argv[1], a tool or lustrine before one, as the program says.
function __lustrine_ask
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    for line in (lustrine complete $argv[1] -- $words[2..-1] "$typed" 2>/dev/null)
        switch $line
            case ':file'
                __fish_complete_path "$typed"
            case ':*'
            case '*'
                printf '%s\n' $line
        end
    end
end

for tool in @TOOLS@
    complete -c $tool -f -a "(__lustrine_ask $tool)"
    complete -c lustrine -n "__fish_seen_subcommand_from $tool" -f -a '(__lustrine_ask lustrine)'
end
