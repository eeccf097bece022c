//! Scripts in few bytes.

use lustrine_tools::table::{CommandSyntax, OptionSyntax, Tool, ValueKind};

/// Words that scripts contain in addition to the words of the tables.
const COMMON: [&str; 24] = [
    "\n",
    "a",
    "b",
    "batch",
    "10.0.0.1@tcp",
    "10.0.0.[1-4]@tcp",
    "oss[1-3]@o2ib",
    "vm3",
    "0",
    "1",
    "2",
    "3",
    "30",
    "-1",
    "size=4K",
    "check=full",
    "1:1",
    "2:1",
    "--",
    "--help",
    "help",
    "list-commands",
    "ignore_errors",
    "quit",
];

/// A script as text: two bytes, the first of which is above 127, are a word of the tool's table, or
/// a word that is often used with these, and a blank; other bytes are themselves.
pub(super) fn spelt(tool: &'static Tool, raw: &[u8]) -> String {
    let mut words: Vec<String> = COMMON.map(str::to_owned).to_vec();
    tool.commands.iter().for_each(|syntax| collect(syntax, &mut words));
    let mut text: Vec<u8> = Vec::new();
    let mut rest = raw.iter();
    while let Some(byte) = rest.next() {
        match byte {
            0x80.. => {
                let low = rest.next().copied().unwrap_or(0);
                let index = usize::from(byte & 0x7f) << 8 | usize::from(low);
                text.extend_from_slice(words[index % words.len()].as_bytes());
                text.push(b' ');
            }
            // A letter of two bytes, and one of four.
            0x01 => text.extend_from_slice("\u{fc}".as_bytes()),
            0x02 => text.extend_from_slice("\u{1d11e}".as_bytes()),
            plain => text.push(*plain),
        }
    }
    String::from_utf8(text).unwrap_or_default()
}

fn collect(syntax: &'static CommandSyntax, words: &mut Vec<String>) {
    words.push(syntax.name.to_owned());
    for option in syntax.options {
        words.push(format!("--{}", option.long));
        words.extend(option.short.map(|letter| format!("-{letter}")));
        values(option, words);
    }
    for word in syntax.positionals {
        if let ValueKind::OneOf(known) | ValueKind::Suggested(known) = word.kind {
            words.extend(known.iter().map(|known| (*known).to_owned()));
        }
    }
    syntax.subcommands.iter().for_each(|under| collect(under, words));
}

fn values(option: &OptionSyntax, words: &mut Vec<String>) {
    match option.kind {
        ValueKind::OneOf(known) | ValueKind::Suggested(known) => {
            words.extend(known.iter().map(|known| (*known).to_owned()));
        }
        ValueKind::Number { min, max, .. } | ValueKind::OptionalNumber { min, max, .. } => {
            words.extend([min, max].map(|number| number.to_string()));
        }
        _ => {}
    }
}
