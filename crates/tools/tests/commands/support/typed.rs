//! The input and output of a recorded session, and the shell that the scripts of such sessions and
//! of known wrappers need.

use lustrine_lnet::time::Nanos;
use lustrine_tools::lst::Settings;
use lustrine_tools::shell::{Exit, split};

use super::World;

/// Lines typed at a machine, and its output.
pub struct Block {
    pub machine: u32,
    pub typed: Vec<String>,
    pub shown: Vec<String>,
}

/// Reads a recorded session.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines() {
        if let Some((machine, command)) = line.strip_prefix("[vm").and_then(|rest| {
            let (machine, command) = rest.split_once("]# ")?;
            Some((machine.parse().unwrap(), command.to_owned()))
        }) {
            blocks.push(Block { machine, typed: vec![command], shown: Vec::new() });
            continue;
        }
        let block = blocks.last_mut().expect("a session begins with what is typed");
        let starts = ["lst ", "sleep ", "set ", "export "];
        let is_typed = line.is_empty() || starts.iter().any(|start| line.starts_with(start));
        match block.shown.is_empty() && is_typed {
            true => block.typed.push(line.to_owned()),
            false => block.shown.push(line.to_owned()),
        }
    }
    blocks
}

/// A line of output, and whether it is on standard error.
pub type Line = (String, bool);

/// A shell with the features that scripts of `lst` need: `;`, `export`, `sleep`, `echo`, `set -x`.
#[derive(Default)]
pub struct Shell {
    pub settings: Settings,
    echoes: bool,
    /// The status of the last command.
    pub last: Option<Exit>,
}

impl Shell {
    /// Runs lines at a machine. Returns the output.
    pub fn type_in(&mut self, world: &mut World, machine: u32, lines: &[String]) -> Vec<Line> {
        let mut shown = Vec::new();
        for command in lines.iter().flat_map(|line| line.split(';')) {
            let words = split(command.trim()).unwrap();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if self.echoes && !words.is_empty() {
                shown.push((format!("+ {}", words.join(" ")), false));
            }
            match words[..] {
                [] => {}
                ["set", "-x"] => self.echoes = true,
                ["export", assignment] => self.export(assignment),
                ["sleep", seconds] => world.pass(Nanos::from_secs(seconds.parse().unwrap())),
                ["echo", "rc=$?"] => shown.push((format!("rc={}", self.last.unwrap().0), false)),
                ["lst", ref words @ ..] => {
                    let mut seat = world.sit_down(machine);
                    self.last = Some(seat.lst(&self.settings, words));
                    shown.append(&mut seat.lines);
                }
                ref other => panic!("unsupported shell command {other:?}"),
            }
        }
        shown
    }

    fn export(&mut self, assignment: &str) {
        let (name, value) = assignment.split_once('=').unwrap();
        let value = Some(value.to_owned());
        match name {
            "LST_SESSION" => self.settings.session = value,
            "LST_FEATURES" => self.settings.features = value,
            other => panic!("lst reads no {other}"),
        }
    }
}
