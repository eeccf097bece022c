//! Prints events as lines for people, or as JSON for programs.

use std::fmt::Write as _;
use std::io::{self, Write};

use lustrine_capture::{Direction, Event};
use serde_json::{Map, Value as Json, json};

use super::describe::{Description, Fields, Value, describe};

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
    start_ns: Option<u64>,
    printed: u64,
}

impl<W: Write> Printer<W> {
    /// `raw`: print the bytes of events as well.
    pub(super) fn new(out: W, form: Form, raw: bool) -> Printer<W> {
        Printer { out, form, raw, start_ns: None, printed: 0 }
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
    if let Some((kind, fields)) = &description.content {
        write!(line, " | {kind}").expect("strings take everything");
        push_fields(&mut line, fields);
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
    }
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
    if let Some((kind, fields)) = &description.content {
        let mut content = json_fields(fields);
        content.insert("kind".to_owned(), json!(kind));
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
    }
}

/// Two digits for each byte.
pub(super) fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("strings take everything");
        text
    })
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
