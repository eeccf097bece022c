//! What a node that tunes itself starts with.

use lustrine_partition::tunables::loops;

use super::NodeConfig;

/// Whether a node tunes itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// It keeps to the values that it was given.
    #[default]
    Fixed,
    /// It sends as much as each path carries: [`AUTO`].
    Auto,
}

/// What `tuning: auto` stands for: RPCs are limited by windows, and credits are so many that they
/// never limit what windows allow. 1024 messages of 1 MiB are 10 Gb/s over 800 ms; their data need
/// as much memory. Paths of 150 ms and more are paced: in slow start, bursts overflow queues that
/// hold a part of such a path only, and TCP needs half a minute to recover. Writes over 50 and
/// 100 ms gained nothing by it, and it takes CPU time.
pub const AUTO: [(&str, i64); 5] = [
    ("selftest_auto", 1),
    ("credits", 8192),
    ("peer_credits", 1024),
    ("selftest_memory", 1024),
    ("tcp_pacing", 150),
];

impl NodeConfig {
    /// Changes a configuration that was read to the one or the other. `Auto` keeps values that are
    /// not the defaults; `Fixed` puts the defaults in place of those of [`AUTO`].
    pub fn set_tuning(&mut self, tuning: Tuning) {
        self.tune(tuning, |_| false);
    }

    /// The same, without the tunables that `is_given` says were given.
    pub(crate) fn tune(&mut self, tuning: Tuning, is_given: impl Fn(&str) -> bool) {
        let defaults = NodeConfig::default().tunables;
        for (name, auto) in AUTO.into_iter().filter(|(name, _)| !is_given(name)) {
            let default = defaults.value(name).expect("it is a tunable");
            let (from, to) = match tuning {
                Tuning::Auto => (default, auto),
                Tuning::Fixed => (auto, default),
            };
            if self.tunables.value(name) == Some(from) {
                let set = self.tunables.set(name, to);
                assert!(set.is_ok(), "{name} is a tunable and {to} in its range");
            }
        }
    }

    /// Lets the services of the node keep so many bytes where they were received, such as the data
    /// of a cache or of a server in memory, in addition to what each node may keep. If the tunable
    /// `kept_memory` was given, it stays.
    pub fn keep_received(&mut self, bytes: u64) {
        let Some(row) = loops::TABLE.iter().find(|row| row.name == "kept_memory") else { return };
        let kept = &mut self.tunables.loops.kept_memory;
        if *kept == row.default {
            let mib = i64::try_from(bytes >> 20).unwrap_or(row.max);
            *kept = loops::KEPT_MEMORY.saturating_add(mib).min(row.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Strictness;

    fn read(text: &str) -> Result<NodeConfig, String> {
        let read = NodeConfig::from_yaml(text, "node.yaml", Strictness::Strict);
        read.map(|(config, _)| config).map_err(|error| error.to_string())
    }

    #[test]
    fn auto_stands_for_values_that_were_not_given() {
        let config = read("lustrine: {tuning: auto}").expect("a configuration");
        for (name, value) in AUTO {
            assert_eq!(config.tunables.value(name), Some(value), "{name}");
        }
        // Also if the value is the default, wherever it is.
        for text in [
            "lustrine: {tuning: auto, tunables: {peer_credits: 8}}",
            "lustrine: {tunables: {peer_credits: 8}, tuning: auto}",
        ] {
            let config = read(text).expect("a configuration");
            let value = |name| config.tunables.value(name);
            assert_eq!((value("peer_credits"), value("credits")), (Some(8), Some(8192)));
        }
        let config = read("lustrine: {tuning: fixed}").expect("a configuration");
        assert_eq!(config.tunables, NodeConfig::default().tunables);
        let error = read("lustrine: {tuning: on}").unwrap_err();
        assert!(error.contains("auto, fixed"), "{error}");
    }

    #[test]
    fn an_option_changes_what_the_file_says() {
        let mut config = read("lustrine: {tunables: {peer_credits: 16}}").expect("one");
        config.set_tuning(Tuning::Auto);
        let value = |config: &NodeConfig, name| config.tunables.value(name);
        assert_eq!(value(&config, "peer_credits"), Some(16));
        assert_eq!(
            (value(&config, "credits"), value(&config, "selftest_auto")),
            (Some(8192), Some(1))
        );
        let mut config = read("lustrine: {tuning: auto}").expect("one");
        config.set_tuning(Tuning::Fixed);
        assert_eq!(config.tunables, NodeConfig::default().tunables);
    }

    #[test]
    fn memory_for_received_data_is_added_unless_it_was_given() {
        let kept = |text: &str, bytes| {
            let mut config = read(text).expect("a configuration");
            config.keep_received(bytes);
            config.tunables.value("kept_memory")
        };
        assert_eq!((kept("{}", 0), kept("{}", 1 << 30)), (Some(256), Some(1280)));
        assert_eq!(kept("{}", u64::MAX), Some(16_777_216), "the most that there can be");
        for given in [0, 5, 256] {
            let text = format!("lustrine: {{tunables: {{kept_memory: {given}}}}}");
            assert_eq!(kept(&text, 1 << 30), Some(given));
        }
    }

    #[test]
    fn what_is_written_starts_the_same_node() {
        let config = read("lustrine: {tuning: auto}").expect("a configuration");
        assert_eq!(read(&config.to_yaml()).expect("a configuration"), config);
    }
}
