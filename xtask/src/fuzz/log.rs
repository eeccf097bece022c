//! The output of libFuzzer on standard error.

/// The values in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Inline counters of the program: the number of distinguishable places.
    pub(crate) counters: u64,
    /// Inputs that were run.
    pub(crate) execs: u64,
    /// Places that were reached.
    pub(crate) coverage: u64,
    /// Inputs that reached something new.
    pub(crate) corpus: u64,
    /// Most memory used, in MiB.
    pub(crate) memory_peak: u64,
    /// The file with the input that crashed, hung or used too much memory.
    pub(crate) artifact: Option<String>,
    /// The panic's message and libFuzzer's own messages, without backtrace.
    pub(crate) story: String,
}

/// Largest number of lines of a message.
const STORY_MAX: usize = 12;

impl Report {
    pub(crate) fn read(text: &str) -> Report {
        let mut report = Report::default();
        let mut story: Vec<&str> = Vec::new();
        let mut panic_lines = 0;
        for line in text.lines() {
            if let Some(count) = between(line, "(", " inline 8-bit counters)") {
                report.counters += count;
            }
            if let Some(count) = after(line, "stat::number_of_executed_units:") {
                report.execs = count;
            }
            if let Some(count) = after(line, "stat::peak_rss_mb:") {
                report.memory_peak = count;
            }
            if line.starts_with('#') {
                report.coverage = after(line, "cov:").unwrap_or(report.coverage);
                report.corpus = after(line, "corp:").unwrap_or(report.corpus);
            }
            if let Some((_, path)) = line.split_once("Test unit written to ") {
                report.artifact = Some(path.trim().to_owned());
            }
            if line.starts_with("thread ") && line.contains("panicked at") {
                panic_lines = 6;
            }
            if line.starts_with("stack backtrace") || line.starts_with("note:") {
                panic_lines = 0;
            }
            let relevant = panic_lines > 0 || line.contains("ERROR: ") || line.contains("error: ");
            if relevant && story.len() < STORY_MAX {
                story.push(line);
            }
            panic_lines = usize::saturating_sub(panic_lines, 1);
        }
        report.story = story.join("\n");
        report
    }
}

/// The number that follows `key`.
fn after(line: &str, key: &str) -> Option<u64> {
    let (_, rest) = line.split_once(key)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number between `open` and `close`.
fn between(line: &str, open: &str, close: &str) -> Option<u64> {
    let (before, _) = line.split_once(close)?;
    let (_, number) = before.rsplit_once(open)?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: &str = "\
INFO: Seed: 503933871
INFO: Loaded 1 modules   (3482 inline 8-bit counters): 3482 [0x5572e98be408, 0x5572e98bf1a2),
INFO: Loaded 1 PC tables (3482 PCs): 3482 [0x5572e98bf1a8,0x5572e98ccb48),
#220\tINITED cov: 1004 ft: 1890 corp: 190/10459b exec/s: 0 rss: 28Mb
#8207868\tDONE   cov: 1347 ft: 4532 corp: 1247/119Kb lim: 1024 exec/s: 134555 rss: 29Mb
stat::number_of_executed_units: 8207868
stat::peak_rss_mb:              29
";
    const CRASH: &str = "\
INFO: Loaded 1 modules   (3487 inline 8-bit counters): 3487 [0x560efe7ca588, 0x560efe7cb327),
#39\tINITED cov: 817 ft: 1075 corp: 37/3643b exec/s: 0 rss: 27Mb

thread '<unnamed>' (14928) panicked at src/wire/text.rs:38:13:
\"1@<255:1>\" gives [<?>]
stack backtrace:
   0: __rustc::rust_begin_unwind
==14928== ERROR: libFuzzer: deadly signal
artifact_prefix='./'; Test unit written to ./crash-2bc3e7d3
stat::number_of_executed_units: 6059
";

    #[test]
    fn a_run_without_crash_is_read() {
        let report = Report::read(QUIET);
        let expected = Report {
            counters: 3482,
            execs: 8_207_868,
            coverage: 1347,
            corpus: 1247,
            memory_peak: 29,
            artifact: None,
            story: String::new(),
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn a_crash_is_read() {
        let report = Report::read(CRASH);
        assert_eq!(report.artifact.as_deref(), Some("./crash-2bc3e7d3"));
        assert!(report.story.contains("gives [<?>]"), "{}", report.story);
        assert!(report.story.ends_with("deadly signal"), "{}", report.story);
        assert!(!report.story.contains("rust_begin_unwind"));
    }

    #[test]
    fn a_program_without_coverage_is_detected() {
        assert_eq!(Report::read("INFO: Seed: 1\n#2 INITED corp: 1/1b\n").counters, 0);
    }
}
