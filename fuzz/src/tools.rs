//! Scripts for the administrators' tools, and an environment with arbitrary answers.

mod words;
mod world;

use lustrine_tools::complete::complete;
use lustrine_tools::lctl::{LCTL, Lctl};
use lustrine_tools::lnetctl::{self, LNETCTL, Lnetctl};
use lustrine_tools::lst::{self, LST, Lst};
use lustrine_tools::shell::{
    Compat, Interpreter, Invocation, LineOutcome, Mode, NameMatching, Program, invocation, run,
    split,
};
use lustrine_tools::table::Tool;

use world::World;

/// Largest number of lines of a script.
const LINES_MAX: usize = 32;

/// Largest number of candidates for one word: more than any table has.
const CANDIDATES_MAX: usize = 256;

/// How the script is run.
struct Settings {
    compat: Compat,
    mode: Mode,
    /// Whether there is a key of a session.
    key: bool,
    /// Whether lines are the arguments of a shell command instead.
    arguments: bool,
}

/// Runs a script. The first byte selects the tool; then comes the script, and after a zero byte the
/// answers of the environment.
///
/// # Panics
/// When a tool panics, prints more than it may, or prints an incomplete line.
pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let answers = rest.get(end + 1..).unwrap_or_default();
    let settings = Settings {
        compat: if first & 4 == 0 { Compat::V2_16 } else { Compat::V2_15 },
        mode: match first & 8 {
            0 => Mode::Script { ignore_errors: first & 16 == 0 },
            _ => Mode::Prompt,
        },
        key: first & 32 != 0,
        arguments: first & 64 != 0,
    };
    let mut world = World::new(answers);
    match first & 3 {
        0 | 3 => {
            let text = words::spelt(&LST, &rest[..end]);
            let settings_of_lst = lst::Settings {
                compat: settings.compat,
                session: settings.key.then(|| "7".to_owned()),
                features: None,
                whoami: "root@here".to_owned(),
                version: "1".to_owned(),
            };
            play(&settings, &text, &mut world, |world| Lst::new(world, &settings_of_lst));
            type_in(&LST, &text);
        }
        1 => {
            let text = words::spelt(&LNETCTL, &rest[..end]);
            let own = lnetctl::Settings { compat: settings.compat, version: "1".to_owned() };
            play(&settings, &text, &mut world, |world| Lnetctl::new(world, &own));
            type_in(&LNETCTL, &text);
        }
        _ => {
            let text = words::spelt(&LCTL, &rest[..end]);
            let own = lnetctl::Settings { compat: settings.compat, version: "1".to_owned() };
            play(&settings, &text, &mut world, |world| Lctl::new(world, &own));
            type_in(&LCTL, &text);
        }
    }
    world.look_at_rates();
}

fn play<'w, 'a, P: Program + 'w>(
    settings: &Settings,
    text: &str,
    world: &'w mut World<'a>,
    program: impl FnOnce(&'w mut World<'a>) -> P,
) {
    let mut program = program(world);
    let mut interpreter = Interpreter::new(settings.mode);
    for line in text.split('\n').take(LINES_MAX) {
        assert!(!interpreter.prompt(&program).contains('\n'));
        if settings.arguments {
            let Ok(words) = split(line) else { continue };
            if let Invocation::Command(words) = invocation(&words) {
                run(&mut program, &words, NameMatching::Exact);
            }
        } else if let LineOutcome::Quit(exit) = interpreter.line(&mut program, line) {
            let quits = exit == interpreter.exit() || !exit.is_success();
            assert!(quits, "{exit:?} of {line:?}");
            break;
        }
    }
}

/// Every word is completed as if it were the last.
fn type_in(tool: &'static Tool, text: &str) {
    for line in text.split('\n').take(LINES_MAX) {
        let Ok(words) = split(line) else { continue };
        // A shell requests a position; positions far beyond the end behave in the same way.
        for index in 0..=words.len().min(40) {
            let typed = words.get(index).map_or("", String::as_str);
            let found = complete(tool, &words, index);
            assert!(found.candidates.len() <= CANDIDATES_MAX, "{line:?}");
            for candidate in &found.candidates {
                assert!(candidate.text.starts_with(typed), "{candidate:?} for {typed:?}");
                assert!(!candidate.text.contains(['\t', '\n']), "{candidate:?}");
            }
            let shown = found.to_string();
            let lines = found.candidates.len() + usize::from(found.hint.is_some());
            assert_eq!(shown.lines().count(), lines, "{shown:?}");
        }
    }
}
