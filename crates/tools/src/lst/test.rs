//! Tests: the parameters of `add_test`.

use lustrine_selftest::Test;
use lustrine_selftest::console::{Command, Distribution, NewTest};
use lustrine_wire::srpc::{BULK_MAX, BrwCheck, BrwOp};

use super::talk::CommandContext;
use super::{Env, Lst};
use crate::parse::Parsed;
use crate::shell::Exit;

/// Bytes of a bulk test without a size.
const SIZE: u32 = 4096;

impl<O: Env> Lst<'_, O> {
    pub(super) fn add_test(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let context = CommandContext { what: "test", action: "add test" };
        let (Some(from), Some(to)) = (parsed.text("from"), parsed.text("to")) else {
            return Err(self.usage("add_test"));
        };
        let loops = parsed.number("loop").unwrap_or_default();
        if loops == 0 {
            return Err(self.refuse("Invalid loop number: 0 (-1 repeats until stopped)"));
        }
        let distribution = parsed.text("distribute").unwrap_or_default();
        let Some(spread) = spread(distribution) else {
            return Err(self.refuse(format!(
                "Invalid distribution: {distribution} (C:S, both numbers of at least 1: C clients \
                 share S servers)"
            )));
        };
        let kind = parsed.positional(0);
        let (test, offset) = match self::test(kind, &parsed.positionals()[1..]) {
            Ok(found) => found,
            Err(trouble) => {
                self.warn(trouble);
                return Err(self.refuse(format!("Failed to add test ({kind})")));
            }
        };
        let command = Command::AddTest(NewTest {
            batch: parsed.text("batch").unwrap_or_default().to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            test,
            offset,
            loops: loops as i32,
            concurrency: parsed.count("concurrency"),
            spread,
            // Kernel consoles always set it [LST-14].
            stop_on_error: true,
            rate: 0,
        });
        let said = self.ask_nodes(context, command)?;
        self.failures("add test", &said)?;
        self.say("Test was added successfully");
        Ok(())
    }
}

/// `C:S`.
fn spread(text: &str) -> Option<Distribution> {
    let (clients, servers) = text.split_once(':')?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    Some(Distribution { clients: number(clients)?, servers: number(servers)? })
}

/// The test that the parameters describe, and its offset; the error is the message to print.
/// Keywords are not case-sensitive, and the last one of a kind counts.
fn test(kind: &str, words: &[String]) -> Result<(Test, u32), String> {
    match kind.to_ascii_lowercase().as_str() {
        "ping" => match words.first() {
            None => Ok((Test::Ping, 0)),
            Some(word) => Err(format!("Unknow parameter: {word}")),
        },
        "brw" => bulk(words),
        _ => Err(format!("Unknow test: {kind} (there are ping and brw)")),
    }
}

fn bulk(words: &[String]) -> Result<(Test, u32), String> {
    let (mut op, mut len, mut offset) = (BrwOp::Read, SIZE, 0);
    let mut check: Option<BrwCheck> = None;
    let mut discard = false;
    for word in words {
        let unknown = || format!("Unknow parameter: {word}");
        let lower = word.to_ascii_lowercase();
        let (key, value) = lower.split_once('=').unwrap_or((&lower, ""));
        match (key, value) {
            ("read" | "r", "") if key == lower => op = BrwOp::Read,
            ("write" | "w", "") if key == lower => op = BrwOp::Write,
            ("skip_rx_copy", "") if key == lower => discard = true,
            ("check" | "c", "simple") => check = Some(BrwCheck::Simple),
            ("check" | "c", "full") => check = Some(BrwCheck::Full),
            ("check" | "c", "discard") => discard = true,
            ("size" | "s", value) => {
                let bytes = bytes(value).ok_or_else(|| format!("Invalid size: {value}"))?;
                if bytes > u64::from(BULK_MAX) {
                    return Err(format!("Size exceed limitation: {bytes} bytes"));
                }
                len = bytes as u32;
            }
            ("off", value) => {
                let bytes = bytes(value).and_then(|bytes| u32::try_from(bytes).ok());
                offset = bytes
                    .filter(|bytes| bytes.is_multiple_of(8))
                    .ok_or_else(|| format!("Invalid offset: {value} (a multiple of 8)"))?;
            }
            _ => return Err(unknown()),
        }
    }
    let check = match (check, discard) {
        (Some(_), true) => return Err("discard and other checks exclude each other".to_owned()),
        (None, true) => BrwCheck::Discard,
        (check, false) => check.unwrap_or(BrwCheck::None),
    };
    let test = match op {
        BrwOp::Read => Test::Read { len, check },
        BrwOp::Write => Test::Write { len, check },
    };
    Ok((test, offset))
}

/// A number of bytes, with a suffix `k` or `m` for 1024 and 1024 * 1024.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1 << 10),
        b'm' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>());
    Some(u64::from(number?.ok()?) * unit)
}

#[cfg(test)]
mod tests;
