//! YAML as `lnetctl` writes it: three dialects that differ in indentation and in their booleans
//! [TOOL-11].

#[cfg(test)]
mod tests;

/// A dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// All of 2.15, and the commands of later releases that do not use netlink.
    A,
    /// Commands of later releases that use netlink: a dash and five blanks.
    B,
    /// Answers of nodes to `ping` and `discover`.
    C,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Yaml {
    /// Nothing after the key.
    Empty,
    /// Text that is written as it is.
    Plain(String),
    /// A message for people, which is quoted.
    Said(String),
    /// A boolean.
    Bool(bool),
    /// Keys and values.
    Map(Map),
    /// Items of keys and values.
    List(Vec<Map>),
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

/// The items of a list alone, for a list that is written piece by piece.
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
        Yaml::Bool(value) => text.push_str(&format!(" {}\n", dialect.bool(*value))),
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
    /// The indentation of a nested map.
    fn step(self) -> usize {
        match self {
            Dialect::A => 4,
            Dialect::B => 6,
            Dialect::C => 2,
        }
    }

    /// The column of the dashes of a list whose key is in this column.
    fn dash(self, column: usize) -> usize {
        match self {
            Dialect::A => (column / 4 + 1) * 4,
            Dialect::B | Dialect::C => column,
        }
    }

    /// The distance from a dash to its item.
    fn after_dash(self) -> usize {
        match self {
            Dialect::A | Dialect::C => 2,
            Dialect::B => 6,
        }
    }

    fn bool(self, value: bool) -> &'static str {
        match (self, value) {
            (Dialect::A, true) => "True",
            (Dialect::A, false) => "False",
            (_, true) => "true",
            (_, false) => "false",
        }
    }

    /// A message on one line. Later releases tag quoted text.
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
    fn from(value: bool) -> Yaml {
        Yaml::Bool(value)
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
