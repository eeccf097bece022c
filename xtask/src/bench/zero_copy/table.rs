//! The comparison for people.

use std::fmt::Write as _;

use super::completions::Completions;
use super::{Row, Values, ZeroCopy};
use crate::bench::statistics::{Summary, ratio, shown};

type Value = fn(&Values) -> &Summary;

/// What each load has a line for.
const LINES: [(&str, Value); 4] = [
    ("Gb/s", |values| &values.gigabits),
    ("CPU s/GB, sender", |values| &values.sender_cpu_s_per_gb),
    ("CPU s/GB, receiver", |values| &values.receiver_cpu_s_per_gb),
    ("CPU s/GB, machine", |values| &values.machine_cpu_s_per_gb),
];

pub(super) fn render(zero_copy: &ZeroCopy) -> String {
    let ZeroCopy { conditions, congestion, rounds, seconds, rows, .. } = zero_copy;
    let mut out = conditions.heading(&format!("{rounds} rounds of {seconds} s"));
    let _ = writeln!(out, "  TCP: {congestion}\n\nmedian (min..max); GB are 10^9 bytes");
    let mut before = None;
    for row in rows {
        if before.replace(&row.link) != Some(&row.link) {
            let _ = writeln!(
                out,
                "\n{:42} {:>25} {:>25} {:>20}",
                row.link, "copied", "zero copy", "zero copy / copied"
            );
        }
        let _ = writeln!(out, "  {}: {}{}", row.program, row.load, observed(row));
        for (name, value) in LINES {
            let _ = writeln!(
                out,
                "    {name:38} {:>25} {:>25} {:>20}",
                shown(Some(value(&row.off)), number),
                shown(Some(value(&row.on)), number),
                shown(Some(value(&row.ratio)), ratio),
            );
        }
    }
    out += &conclusion(rows);
    out
}

/// What the kernel said about the sends of a row.
fn observed(row: &Row) -> String {
    let Some(completions) = &row.completions else { return String::new() };
    let Completions { in_place, copied, refused } = completions;
    let refused = if *refused == 0 { String::new() } else { format!(", refused {refused}") };
    format!("; the kernel copied {copied} of {} zero-copy sends{refused}", in_place + copied)
}

/// What the rows mean, as far as the kernel has said it.
fn conclusion(rows: &[Row]) -> String {
    let seen = rows.iter().filter_map(|row| row.completions.as_ref());
    let sum = seen.fold(Completions::default(), |sum, one| sum.and(one));
    let mut out = match sum.copied_part() {
        None => "\nWhat the kernel copied after all was not seen (strace).\n".to_owned(),
        Some(1.0) => {
            "\nThe kernel copied all zero-copy sends that were seen after all, so no copy was \
             saved over these links:\nthe rows are what zero copy costs there, and say nothing \
             of an adapter that reads the sender's memory itself.\n"
                .to_owned()
        }
        Some(part) => format!(
            "\nThe kernel copied {:.1} % of the zero-copy sends that were seen after all.\n",
            100.0 * part
        ),
    };
    if rows.iter().any(|row| row.program == "iperf3") {
        out += "iperf3 -Z is sendfile(2) of one file, whose pages a veth pair hands on as they \
                are; it is not MSG_ZEROCOPY,\nwhich is what zero_copy uses.\n";
    }
    out
}

/// As many digits as mean something.
fn number(value: f64) -> String {
    if value >= 10.0 { format!("{value:.1}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::Conditions;

    fn values(value: f64) -> Values {
        let one = || Summary::of(&[value]).expect("a value");
        Values {
            gigabits: one(),
            sender_cpu_s_per_gb: one(),
            receiver_cpu_s_per_gb: one(),
            machine_cpu_s_per_gb: one(),
        }
    }

    fn row(program: &'static str, completions: Option<Completions>) -> Row {
        Row {
            link: "veth, MTU 9000".to_owned(),
            program,
            load: "write of 1M, 8 in flight".to_owned(),
            off: values(20.0),
            on: values(5.0),
            ratio: values(0.25),
            completions,
        }
    }

    fn table(rows: Vec<Row>) -> String {
        let (rounds, seconds, in_flight) = (1, 2, 8);
        let (conditions, congestion) = (Conditions::without_versions(), "cubic".to_owned());
        render(&ZeroCopy { conditions, congestion, rounds, seconds, in_flight, rows })
    }

    #[test]
    fn each_load_has_its_lines_and_the_end_says_what_the_kernel_copied() {
        let all = Completions { in_place: 0, copied: 7, refused: 2 };
        let text = table(vec![row("lustrine", Some(all)), row("iperf3", None)]);
        assert_eq!(text.matches("veth, MTU").count(), 1, "{text}");
        assert_eq!(text.matches("CPU s/GB, machine").count(), 2, "{text}");
        assert!(text.contains("20.0 (20.0..20.0)"), "{text}");
        assert!(text.contains("0.25 (0.25..0.25)"), "{text}");
        assert!(text.contains("copied 7 of 7 zero-copy sends, refused 2"), "{text}");
        assert!(text.contains("no copy was saved") && text.contains("sendfile"), "{text}");
    }

    #[test]
    fn a_kernel_that_sends_in_place_is_not_said_to_copy() {
        let some = Completions { in_place: 3, copied: 1, refused: 0 };
        let text = table(vec![row("lustrine", Some(some))]);
        assert!(text.contains("copied 25.0 %") && !text.contains("was saved"), "{text}");
        let text = table(vec![row("lustrine", None)]);
        assert!(text.contains("was not seen") && !text.contains("sendfile"), "{text}");
    }
}
