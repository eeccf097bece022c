//! Parameters that a configuration sets: for which devices, and to what [MGS-15].

use core::fmt;

use lustrine_lnet::time::Nanos;

/// A parameter of a configuration: what `lctl conf_param` and `lctl set_param -P` have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The kind of the device, such as `osc`; `sys` for what belongs to the whole client.
    pub subsystem: String,
    /// For which devices it is.
    pub scope: Scope,
    /// Its name, such as `max_rpcs_in_flight`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The devices that a parameter is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// One device, by its name in the configuration, such as `lustre-OST0001-osc`.
    Device(String),
    /// All whose names in this client match a pattern, such as `lustre-OST*-osc-[^M]*`.
    Pattern(String),
    /// The whole client.
    Client,
}

/// Longest text of a parameter that is used, in bytes.
const TEXT_MAX: usize = 512;

impl Parameter {
    /// The parameter of a PARAM record: a device, and `subsystem.name=value`. None if it is none.
    pub(crate) fn of_device(device: &[u8], text: &[u8]) -> Option<Parameter> {
        let (path, value) = split(text)?;
        let (subsystem, name) = path.split_once('.')?;
        let device = core::str::from_utf8(device).ok().filter(|text| text.len() <= TEXT_MAX)?;
        let scope = match subsystem {
            "sys" => Scope::Client,
            _ => Scope::Device(device.to_owned()),
        };
        Some(Parameter {
            subsystem: subsystem.to_owned(),
            scope,
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }

    /// The parameter of a SET_PARAM record: `subsystem.pattern.name=value`, or `name=value` for the
    /// whole client. None if it is none.
    pub(crate) fn of_path(text: &[u8]) -> Option<Parameter> {
        let (path, value) = split(text)?;
        let value = value.to_owned();
        let Some((subsystem, rest)) = path.split_once('.') else {
            let (subsystem, name) = ("sys".to_owned(), path.to_owned());
            return Some(Parameter { subsystem, scope: Scope::Client, name, value });
        };
        let (pattern, name) = rest.split_once('.')?;
        Some(Parameter {
            subsystem: subsystem.to_owned(),
            scope: Scope::Pattern(pattern.to_owned()),
            name: name.to_owned(),
            value,
        })
    }

    /// What a SET_TIMEOUT record sets.
    pub(crate) fn timeout(seconds: u32) -> Parameter {
        Parameter {
            subsystem: "sys".to_owned(),
            scope: Scope::Client,
            name: "timeout".to_owned(),
            value: seconds.to_string(),
        }
    }

    /// Whether it is for a device of this client.
    pub(crate) fn is_for(&self, device: &DeviceName) -> bool {
        if !matches(&self.subsystem, device.subsystem) {
            return false;
        }
        match &self.scope {
            Scope::Device(name) => *name == device.name,
            Scope::Pattern(pattern) => matches(pattern, &device.full),
            Scope::Client => false,
        }
    }

    /// Whether it means anything to this client, with the value that it has.
    pub fn is_known(&self) -> bool {
        Setting::of(self).is_some()
    }

    /// What it sets, and for which devices: of those that are equal, the last one counts.
    pub(crate) fn place(&self) -> (&str, &Scope, &str) {
        (&self.subsystem, &self.scope, &self.name)
    }
}

/// A device of this client, as parameters name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceName {
    /// The kind of the device.
    pub(crate) subsystem: &'static str,
    /// Its name in the configuration.
    pub(crate) name: String,
    /// The same with what a kernel client adds to it.
    full: String,
}

impl DeviceName {
    /// The name of a device. `instance` is what a kernel client adds to it.
    pub(crate) fn new(subsystem: &'static str, name: String, instance: u64) -> DeviceName {
        let full = format!("{name}-{instance:016x}");
        DeviceName { subsystem, name, full }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameter { subsystem, scope, name, value } = self;
        match scope {
            Scope::Device(device) => write!(f, "{device}.{subsystem}.{name}={value}"),
            Scope::Pattern(pattern) => write!(f, "{subsystem}.{pattern}.{name}={value}"),
            Scope::Client => write!(f, "{name}={value}"),
        }
    }
}

/// Path and value of `path=value`.
fn split(text: &[u8]) -> Option<(&str, &str)> {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let text = core::str::from_utf8(&text[..end]).ok().filter(|text| text.len() <= TEXT_MAX)?;
    let (path, value) = text.split_once('=')?;
    (!path.is_empty() && !text.contains(char::is_control)).then_some((path, value))
}

/// What a parameter means to this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Whether a target is used.
    Active(bool),
    /// Most reads and writes at a target at once.
    MaxRpcsInFlight(u16),
    /// Most changes at a target at once.
    MaxModRpcsInFlight(u16),
    /// Most bytes of one transfer.
    MaxTransfer(u32),
    /// Most bytes for a target that are not written.
    MaxDirty(u64),
    /// Whether data have checksums.
    Checksums(bool),
    /// After how long without requests and locks an object target is disconnected; `None` for
    /// never.
    IdleTimeout(Option<Nanos>),
    /// The base time-out: a ping is sent after a quarter of it.
    Timeout(Nanos),
    /// Limits and memory of adaptive time-outs, in seconds.
    AtMin(u32),
    /// As above.
    AtMax(u32),
    /// As above.
    AtHistory(u32),
    /// Most bytes of an object that are read before a program asks for them.
    MaxReadAhead(u64),
    /// Most files of a directory that are asked for before a program does.
    StatAheadMax(usize),
}

/// Bytes of a page.
const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

impl Setting {
    /// What a parameter sets. None if it means nothing to this client, or the value is none that it
    /// can have.
    pub(crate) fn of(parameter: &Parameter) -> Option<Setting> {
        let value = parameter.value.trim();
        let number = |low: u64, high: u64| {
            value.parse().ok().filter(|number: &u64| (low..=high).contains(number))
        };
        let seconds = |high: u64| number(0, high).map(|number| number as u32);
        let at_targets = ["osc", "mdc"].iter().any(|kind| matches(&parameter.subsystem, kind));
        Some(match (&parameter.scope, parameter.name.as_str()) {
            (Scope::Client, "timeout") => Setting::Timeout(Nanos::from_secs(number(4, 3600)?)),
            (Scope::Client, "at_min") => Setting::AtMin(seconds(600)?),
            (Scope::Client, "at_max") => Setting::AtMax(number(1, 36_000)? as u32),
            (Scope::Client, "at_history") => Setting::AtHistory(number(1, 36_000)? as u32),
            (Scope::Device(_) | Scope::Pattern(_), name) if at_targets => match name {
                "active" => Setting::Active(number(0, 1)? == 1),
                "checksums" => Setting::Checksums(number(0, 1)? == 1),
                "max_rpcs_in_flight" => Setting::MaxRpcsInFlight(number(1, 512)? as u16),
                "max_mod_rpcs_in_flight" => Setting::MaxModRpcsInFlight(number(1, 512)? as u16),
                "max_pages_per_rpc" => {
                    let bytes = bytes_of(value, PAGE)?;
                    Setting::MaxTransfer(
                        (PAGE..=u64::from(u32::MAX))
                            .contains(&bytes)
                            .then_some((bytes / PAGE * PAGE) as u32)?,
                    )
                }
                "idle_timeout" if matches(&parameter.subsystem, "osc") => {
                    let timeout = Nanos::from_secs(number(0, 86_400)?);
                    Setting::IdleTimeout((timeout > Nanos::ZERO).then_some(timeout))
                }
                "max_dirty_mb" => {
                    Setting::MaxDirty(bytes_of(value, MIB).filter(|most| *most >= MIB)?)
                }
                _ => return None,
            },
            (Scope::Device(_) | Scope::Pattern(_), name)
                if matches(&parameter.subsystem, "llite") =>
            {
                match name {
                    "max_read_ahead_mb" => Setting::MaxReadAhead(bytes_of(value, MIB)?),
                    "statahead_max" => Setting::StatAheadMax(number(0, 8192)? as usize),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }
}

/// Bytes of a number with the unit `K`, `M` or `G`, or in units of `unit`.
fn bytes_of(value: &str, unit: u64) -> Option<u64> {
    let (digits, unit) = match value.as_bytes().last()? {
        b'K' | b'k' => (&value[..value.len() - 1], 1 << 10),
        b'M' | b'm' => (&value[..value.len() - 1], MIB),
        b'G' | b'g' => (&value[..value.len() - 1], 1 << 30),
        _ => (value, unit),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Whether a text matches a pattern of a shell: `*`, `?`, `[abc]`, `[a-z]`, `[^a]`, `[!a]`.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last `*` does not fit.
    let mut star = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
        } else if let Some(next) = one(pattern, p, text[t]) {
            (p, t) = (next, t + 1);
        } else if let Some((after, at)) = star {
            star = Some((after, at + 1));
            (p, t) = (after, at + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Where a pattern goes on behind the one character at `p`, if a byte fits it.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => {
            let rest = &pattern[p + 1..];
            let negated = matches!(rest.first(), Some(b'^' | b'!'));
            let set = &rest[usize::from(negated)..];
            // A bracket right at the beginning stands for itself.
            let Some(end) = set.iter().skip(1).position(|byte| *byte == b']').map(|end| end + 1)
            else {
                return (byte == b'[').then_some(p + 1);
            };
            let mut found = false;
            let mut at = 0;
            while at < end {
                let range = at + 2 < end && set[at + 1] == b'-';
                let last = if range { set[at + 2] } else { set[at] };
                found |= (set[at]..=last).contains(&byte);
                at += if range { 3 } else { 1 };
            }
            (found != negated).then_some(p + 1 + usize::from(negated) + end + 1)
        }
        literal => (literal == byte).then_some(p + 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> Parameter {
        Parameter::of_path(text.as_bytes()).expect("a parameter")
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, text, fits) in [
            ("lab-*", "lab-OST0000-osc-ffff888012345678", true),
            ("lab-OST0000-osc-[^M]*", "lab-OST0000-osc-ffff888012345678", true),
            ("lab-OST0000-osc-[^M]*", "lab-OST0000-osc-MDT0000", false),
            ("*-OST000[13]-*", "lab-OST0001-osc-0", true),
            ("*-OST000[13]-*", "lab-OST0002-osc-0", false),
            ("*-OST000[1-3]-*", "lab-OST0002-osc-0", true),
            ("o?c", "osc", true),
            ("osc", "osc2", false),
            ("*", "", true),
            ("", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("[", "[", true),
            ("[]x]", "]", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn parameters_are_for_the_devices_that_they_name() {
        let device = Parameter::of_device(b"lab-OST0001-osc", b"osc.active=0").unwrap();
        assert_eq!(device.to_string(), "lab-OST0001-osc.osc.active=0");
        let is_for = |parameter: &Parameter, name: &str, kind| {
            parameter.is_for(&DeviceName::new(kind, name.to_owned(), 1))
        };
        assert!(is_for(&device, "lab-OST0001-osc", "osc"));
        assert!(!is_for(&device, "lab-OST0002-osc", "osc"));
        assert_eq!(Setting::of(&device), Some(Setting::Active(false)));
        let pattern = path("osc.lab-*.max_rpcs_in_flight=7");
        assert!(is_for(&pattern, "lab-OST0002-osc", "osc"));
        assert!(!is_for(&pattern, "lab-MDT0000-mdc", "mdc"));
        assert_eq!(Setting::of(&pattern), Some(Setting::MaxRpcsInFlight(7)));
        assert_eq!(pattern.to_string(), "osc.lab-*.max_rpcs_in_flight=7");
        assert_eq!(pattern.place(), path("osc.lab-*.max_rpcs_in_flight=8").place());
        assert_ne!(pattern.place(), path("mdc.lab-*.max_rpcs_in_flight=8").place());
    }

    #[test]
    fn values_have_units_and_limits() {
        for (text, setting) in [
            ("osc.*.max_pages_per_rpc=256", Some(Setting::MaxTransfer(1 << 20))),
            ("osc.*.max_pages_per_rpc=4M", Some(Setting::MaxTransfer(4 << 20))),
            ("osc.*.max_pages_per_rpc=0", None),
            ("osc.*.max_dirty_mb=64", Some(Setting::MaxDirty(64 << 20))),
            ("osc.*.max_rpcs_in_flight=0", None),
            ("osc.*.max_rpcs_in_flight=513", None),
            ("mdc.*.max_mod_rpcs_in_flight=3", Some(Setting::MaxModRpcsInFlight(3))),
            ("osc.*.idle_timeout=0", Some(Setting::IdleTimeout(None))),
            ("osc.*.idle_timeout=40", Some(Setting::IdleTimeout(Some(Nanos::from_secs(40))))),
            ("osc.*.idle_timeout=debug", None),
            ("mdc.*.idle_timeout=40", None),
            ("timeout=40", Some(Setting::Timeout(Nanos::from_secs(40)))),
            ("timeout=0", None),
            ("at_min=15", Some(Setting::AtMin(15))),
            ("llite.*.max_read_ahead_mb=20", Some(Setting::MaxReadAhead(20 << 20))),
            ("llite.*.max_read_ahead_mb=99999999999999999999G", None),
            ("llite.*.statahead_max=0", Some(Setting::StatAheadMax(0))),
            ("llite.*.statahead_max=8193", None),
            ("llite.*.statahead_agl=0", None),
            ("jobid_var=procname_uid", None),
            ("osc.*.checksums=0", Some(Setting::Checksums(false))),
            ("mdc.*.checksums=1", Some(Setting::Checksums(true))),
            ("osc.*.checksums=2", None),
        ] {
            assert_eq!(Setting::of(&path(text)), setting, "{text}");
        }
        assert_eq!(
            Setting::of(&Parameter::timeout(100)),
            Some(Setting::Timeout(Nanos::from_secs(100)))
        );
    }

    #[test]
    fn what_is_no_parameter_is_none() {
        for text in ["", "=", "osc", "osc.lab-*=7", "osc.lab-*.x=\u{7}"] {
            assert_eq!(Parameter::of_path(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Parameter::of_path(&[b'x'; 600]), None);
        assert_eq!(Parameter::of_path(&[0xff, b'=', b'1']), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(pattern in "[]\\[a^!*?-]{0,20}", text in "[]\\[a^!*?-]{0,20}") {
            let _ = matches(&pattern, &text);
            let _ = Parameter::of_path(text.as_bytes()).map(|parameter| Setting::of(&parameter));
        }

        #[test]
        fn parts_of_a_text_match_it_with_stars(
            text in "[a-z0-9-]{0,30}",
            at in 0..30usize,
        ) {
            prop_assert!(matches(&text, &text));
            let (first, second) = text.split_at(at.min(text.len()));
            let patterns = [["*", second].concat(), [first, "*"].concat()];
            prop_assert!(patterns.iter().all(|pattern| matches(pattern, &text)));
        }
    }
}
