//! YAML as `lnetctl` writes it: three dialects that differ in indentation and the words for truth
//! (cli-habits 3.1).

#[cfg(test)]
mod tests;

/// How it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// All of 2.15, and what later releases did not move to netlink.
    A,
    /// What they did: a dash and five blanks.
    B,
    /// Answers of nodes to `ping` and `discover`.
    C,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Yaml {
    /// Nothing after the key.
    Empty,
    /// Text as it is to be written.
    Plain(String),
    /// Text that a person reads, which is quoted.
    Said(String),
    /// Truth.
    Is(Truth),
    /// Keys and values.
    Map(Map),
    /// Items of keys and values.
    List(Vec<Map>),
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    Yes,
    No,
}

/// Keys and values, in their order.
pub(crate) type Map = Vec<(String, Yaml)>;

/// A key and its value.
pub(crate) fn entry(key: &str, value: impl Into<Yaml>) -> (String, Yaml) {
    (key.to_owned(), value.into())
}

/// Text in a dialect, whole lines.
pub(crate) fn write(map: &Map, dialect: Dialect) -> String {
    let mut text = String::new();
    write_map(&mut text, map, 0, dialect);
    text
}

/// The items of a list on their own, for one that is written as they come.
pub(crate) fn write_items(items: &[Map], dialect: Dialect) -> String {
    let mut text = String::new();
    write_list(&mut text, items, 0, dialect);
    text
}

fn write_map(text: &mut String, map: &Map, column: usize, dialect: Dialect) {
    for (key, value) in map {
        text.push_str(&format!("{:column$}{key}:", ""));
        write_value(text, value, column, dialect);
    }
}

fn write_value(text: &mut String, value: &Yaml, column: usize, dialect: Dialect) {
    match value {
        Yaml::Empty => text.push('\n'),
        Yaml::Plain(plain) => text.push_str(&format!(" {plain}\n")),
        Yaml::Said(said) => text.push_str(&format!(" {}\n", dialect.quoted(said))),
        Yaml::Is(truth) => text.push_str(&format!(" {}\n", dialect.truth(*truth))),
        Yaml::Map(map) => {
            text.push('\n');
            write_map(text, map, column + dialect.step(), dialect);
        }
        Yaml::List(items) => {
            text.push('\n');
            write_list(text, items, column, dialect);
        }
    }
}

/// The list of a key in this column.
fn write_list(text: &mut String, items: &[Map], column: usize, dialect: Dialect) {
    let dash = dialect.dash(column);
    let keys = dash + dialect.after_dash();
    for item in items {
        let mut lines = String::new();
        write_map(&mut lines, item, keys, dialect);
        // The first line of an item carries the dash.
        let first = lines.trim_start();
        text.push_str(&format!("{:dash$}{:<width$}{first}", "", "-", width = keys - dash));
    }
}

impl Dialect {
    /// How much further the keys of a map stand than its own.
    fn step(self) -> usize {
        match self {
            Dialect::A => 4,
            Dialect::B => 6,
            Dialect::C => 2,
        }
    }

    /// Where the dashes of a list stand whose key is in this column.
    fn dash(self, column: usize) -> usize {
        match self {
            Dialect::A => (column / 4 + 1) * 4,
            Dialect::B | Dialect::C => column,
        }
    }

    /// How far behind its dash an item begins.
    fn after_dash(self) -> usize {
        match self {
            Dialect::A | Dialect::C => 2,
            Dialect::B => 6,
        }
    }

    fn truth(self, truth: Truth) -> &'static str {
        match (self, truth) {
            (Dialect::A, Truth::Yes) => "True",
            (Dialect::A, Truth::No) => "False",
            (_, Truth::Yes) => "true",
            (_, Truth::No) => "false",
        }
    }

    /// On one line, whatever it holds. Later releases tag quoted text.
    fn quoted(self, said: &str) -> String {
        let line: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let escaped = line.replace('\\', "\\\\").replace('"', "\\\"");
        match self {
            Dialect::A => format!("\"{escaped}\""),
            Dialect::B => format!("! \"{escaped}\""),
            Dialect::C => format!("! '{}'", line.replace('\'', "''")),
        }
    }
}

impl From<Map> for Yaml {
    fn from(map: Map) -> Yaml {
        Yaml::Map(map)
    }
}

impl From<Vec<Map>> for Yaml {
    fn from(items: Vec<Map>) -> Yaml {
        Yaml::List(items)
    }
}

impl From<&str> for Yaml {
    fn from(text: &str) -> Yaml {
        Yaml::Plain(text.to_owned())
    }
}

impl From<String> for Yaml {
    fn from(text: String) -> Yaml {
        Yaml::Plain(text)
    }
}

impl From<bool> for Yaml {
    fn from(is: bool) -> Yaml {
        Yaml::Is(if is { Truth::Yes } else { Truth::No })
    }
}

macro_rules! numbers {
    ($($kind:ty)*) => {$(
        impl From<$kind> for Yaml {
            fn from(number: $kind) -> Yaml {
                Yaml::Plain(number.to_string())
            }
        }
    )*};
}

numbers!(u16 u32 u64 i32 i64);

impl From<lustrine_wire::nid::Nid> for Yaml {
    fn from(nid: lustrine_wire::nid::Nid) -> Yaml {
        Yaml::Plain(nid.to_string())
    }
}
