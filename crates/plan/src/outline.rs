//! Describes what a plan would do.

use lustrine_report::numbers::size;

use crate::model::Plan;
use crate::points::{Line, Point};

/// Largest number of points that are listed individually; further ones are counted.
const LISTED_MAX: usize = 200;

/// The number of points, as text.
pub fn count(points: &[Point]) -> String {
    format!("{} {}", points.len(), if points.len() == 1 { "point" } else { "points" })
}

/// The duration of all points with their warm-ups, as text. Sessions, and clients that do not
/// answer, take additional time.
pub fn duration(points: &[Point]) -> String {
    let times = points.iter().map(|point| point.time.0.saturating_add(point.warm_up.0));
    let seconds = times.fold(0, u64::saturating_add).div_ceil(1_000_000_000);
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("at least {seconds} s"),
        (minutes, seconds) => format!("at least {minutes} min {seconds} s"),
    }
}

/// The measurements, point by point, as text.
pub fn outline(plan: &Plan, points: &[Point]) -> String {
    let mut text = String::new();
    let mut last = None;
    for (index, point) in points.iter().enumerate().take(LISTED_MAX) {
        let Some(step) = plan.steps.get(point.step) else { continue };
        if last != Some(point.step) {
            last = Some(point.step);
            let (time, warm_up) = (point.time.as_secs_f64(), point.warm_up.as_secs_f64());
            text += &format!("{}: {time} s for each point, after {warm_up} s\n", step.name);
        }
        text += &format!("{:>5}  {}\n", index + 1, point.title(step.repeat));
        for line in &point.lines {
            text += &format!("       - {}\n", sentence(line));
        }
    }
    if points.len() > LISTED_MAX {
        text += &format!("  ... and {} more\n", points.len() - LISTED_MAX);
    }
    text + &format!("{}, {}\n", count(points), duration(points))
}

fn sentence(line: &Line) -> String {
    let Line { what, from, to, clients, servers, size: bytes, concurrency, rate } = line;
    let mut text = format!("{}: {clients} of {from}, {servers} of {to}", what.name());
    if *bytes > 0 {
        text += &format!(", size {}", size(*bytes));
    }
    text += &format!(", concurrency {concurrency}");
    if *rate > 0 {
        text += &format!(", at most {rate} per second and client");
    }
    text
}

#[cfg(test)]
mod tests {
    use lustrine_wire::nid::Nid;

    use super::*;
    use crate::points::points;

    fn outline_of(plan: &str) -> String {
        let plan = Plan::parse(plan, "test").unwrap();
        let nid = |last: usize| format!("10.0.0.{last}@tcp").parse::<Nid>().unwrap();
        let nodes = vec![vec![nid(1), nid(2)], vec![nid(3)]];
        outline(&plan, &points(&plan, &nodes).unwrap())
    }

    #[test]
    fn every_point_has_its_tests_and_the_plan_its_duration() {
        let text = outline_of(
            "name: x\ngroups: {clients: 2, servers: 1}\nsteps:\n- name: both\n  time: 2 s\n  \
             repeat: 2\n  sweep: {clients: [1, 2]}\n  tests:\n  - {do: ping, from: clients, to: \
             servers, rate: 7}\n  - {do: read, from: servers, to: clients, concurrency: 3, mix: \
             {4 KiB: 1, 1 MiB: 2}}\n",
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "both: 2 s for each point, after 0.5 s");
        assert_eq!(lines[1], "    1  both, clients 1 (1 of 2)");
        assert_eq!(
            lines[2],
            "       - ping: 1 of clients, 1 of servers, concurrency 1, \
             at most 7 per second and client"
        );
        let read = "       - read: 1 of servers, 1 of clients, size";
        assert_eq!(lines[3], format!("{read} 4k, concurrency 1"));
        assert_eq!(lines[4], format!("{read} 1M, concurrency 2"));
        assert_eq!(lines[5], "    2  both, clients 2 (1 of 2)");
        assert_eq!(lines.last(), Some(&"4 points, at least 10 s"));
    }

    #[test]
    fn points_beyond_the_limit_are_counted() {
        let text = outline_of(
            "name: x\ngroups: {clients: 2, servers: 1}\nsteps:\n- repeat: 100\n  sweep: \
             {concurrency: 1..3}\n  tests: [{do: ping, from: clients, to: servers}]\n",
        );
        assert!(text.contains("  ... and 100 more\n300 points, at least 27 min 30 s\n"), "{text}");
        assert!(text.lines().count() < 410);
    }
}
