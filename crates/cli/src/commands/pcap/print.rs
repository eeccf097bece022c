//! Prints events as lines for people, or as JSON for programs.

use std::fmt::Write as _;
use std::io::{self, Write};

use lustrine_capture::{Direction, Event};
use lustrine_fswire::describe::{Fields, Value};
use serde_json::{Map, Value as Json, json};

use super::describe::{Description, describe, hex_of};

/// Bytes per line of a dump.
const DUMP_WIDTH: usize = 16;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
}

/// Prints events one after the other.
pub(super) struct Printer<W> {
    out: W,
    form: Form,
    raw: bool,
    fields: bool,
    start_ns: Option<u64>,
    printed: u64,
}

impl<W: Write> Printer<W> {
    /// Prints lines or objects.
    pub(super) fn new(out: W, form: Form) -> Printer<W> {
        Printer { out, form, raw: false, fields: false, start_ns: None, printed: 0 }
    }

    /// Prints the bytes of events as well.
    pub(super) fn with_raw(self, raw: bool) -> Printer<W> {
        Printer { raw, ..self }
    }

    /// Prints every field of requests and replies as well. Objects have them always.
    pub(super) fn with_fields(self, fields: bool) -> Printer<W> {
        Printer { fields, ..self }
    }

    /// Sets the start of the printed times, unless it is set.
    pub(super) fn start(&mut self, time_ns: u64) {
        self.start_ns.get_or_insert(time_ns);
    }

    /// Prints an event.
    pub(super) fn event(&mut self, event: &Event) -> io::Result<()> {
        self.start(event.time_ns);
        let start_ns = self.start_ns.unwrap_or_default();
        let description = describe(event);
        match self.form {
            Form::Text => {
                writeln!(self.out, "{}", line(event, &description, start_ns))?;
                if let Some(content) = description.content.as_ref().filter(|_| self.fields) {
                    self.out.write_all(details(&content.details).as_bytes())?;
                }
                if self.raw {
                    self.out.write_all(dump(&event.raw).as_bytes())?;
                }
            }
            Form::Json => {
                let object = object(event, &description, start_ns, self.raw);
                writeln!(self.out, "{object}")?;
            }
        }
        self.printed += 1;
        Ok(())
    }

    /// Flushes the output, and returns the number of events.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.printed)
    }
}

/// Frames are not always in the order of their time stamps.
fn since(time_ns: u64, start_ns: u64) -> String {
    let ns = time_ns.abs_diff(start_ns);
    let sign = if time_ns < start_ns { "-" } else { "" };
    format!("{sign}{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

/// One line without its end.
pub(super) fn line(event: &Event, description: &Description, start_ns: u64) -> String {
    let arrow = match event.direction {
        Direction::FromOpener => "->",
        Direction::FromAcceptor => "<-",
    };
    let time = since(event.time_ns, start_ns);
    let mut line = format!("{time:>12} {:>3} {arrow} {}", event.stream, description.kind);
    if let Some((from, to)) = &description.parties {
        write!(line, " {from} > {to}").expect("strings take everything");
    }
    push_fields(&mut line, &description.fields);
    if let Some(content) = &description.content {
        write!(line, " | {}", content.kind).expect("strings take everything");
        push_fields(&mut line, &content.fields);
    }
    line
}

fn push_fields(line: &mut String, fields: &Fields) {
    for (name, value) in fields {
        write!(line, " {name}={}", value_text(value)).expect("strings take everything");
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Text(text) if text.is_empty() || text.contains(' ') => format!("\"{text}\""),
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::Hex(number) => format!("{number:#x}"),
        Value::List(list) => {
            let words: Vec<_> = list.iter().map(value_text).collect();
            format!("[{}]", words.join(" "))
        }
        Value::Fields(fields) => {
            let words: Vec<_> = fields
                .iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| format!("{name}={}", value_text(value)))
                .collect();
            format!("{{{}}}", words.join(" "))
        }
    }
}

/// The most elements of a list in a text; objects have all.
const LIST_MAX: usize = 64;

/// One line for each part that is not empty; fields that are 0 or empty are left out.
fn details(fields: &Fields) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if value.is_empty() {
            continue;
        }
        let shown = match value {
            Value::List(list) if list.len() > LIST_MAX => {
                let first = Value::List(list[..LIST_MAX].to_vec());
                format!("{} and {} more", value_text(&first), list.len() - LIST_MAX)
            }
            other => value_text(other),
        };
        writeln!(text, "    {name}: {shown}").expect("strings take everything");
    }
    text
}

/// One JSON object.
pub(super) fn object(event: &Event, description: &Description, start_ns: u64, raw: bool) -> Json {
    let direction = match event.direction {
        Direction::FromOpener => "from_opener",
        Direction::FromAcceptor => "from_acceptor",
    };
    let mut map = json_fields(&description.fields);
    let mut put = |name: &str, value: Json| {
        map.insert(name.to_owned(), value);
    };
    put("time_ns", json!(event.time_ns));
    put("time", json!(since(event.time_ns, start_ns)));
    put("stream", json!(event.stream));
    put("direction", json!(direction));
    put("stream_offset", json!(event.offset));
    put("raw_len", json!(event.raw.len()));
    put("kind", json!(description.kind));
    if let Some((from, to)) = &description.parties {
        put("from", json!(from));
        put("to", json!(to));
    }
    if let Some(payload) = &description.content {
        let mut content = json_fields(&payload.fields);
        content.insert("kind".to_owned(), json!(payload.kind));
        if !payload.details.is_empty() {
            content.insert("fields".to_owned(), Json::Object(json_fields(&payload.details)));
        }
        put("content", Json::Object(content));
    }
    if raw {
        put("raw", json!(hex_of(&event.raw)));
    }
    Json::Object(map)
}

fn json_fields(fields: &Fields) -> Map<String, Json> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), json_value(value))).collect()
}

/// Hexadecimal numbers become strings: many readers of JSON lose digits beyond 2^53.
fn json_value(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!(text),
        Value::Number(number) => json!(number),
        Value::Signed(number) => json!(number),
        Value::Hex(number) => json!(format!("{number:#x}")),
        Value::List(list) => Json::Array(list.iter().map(json_value).collect()),
        Value::Fields(fields) => Json::Object(json_fields(fields)),
    }
}

/// Offsets, bytes, and their printable characters.
pub(super) fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (row, chunk) in bytes.chunks(DUMP_WIDTH).enumerate() {
        let digits: Vec<_> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let printable = |&byte: &u8| match byte {
            b' '..=b'~' => char::from(byte),
            _ => '.',
        };
        let letters: String = chunk.iter().map(printable).collect();
        let at = row * DUMP_WIDTH;
        writeln!(text, "    {at:06x}  {:<47}  {letters}", digits.join(" "))
            .expect("strings take everything");
    }
    text
}
