//! Plans and scenarios.

use lustrine_plan::{Members, Plan, Step, host_list, points};
use lustrine_scenario::{Location, Problems, Scenario, ScenarioFile};
use lustrine_wire::nid::{Net, Nid};

/// The name of the text in messages.
const NAME: &str = "a.yaml";

/// Largest number of nodes in a group here.
const NODES_MAX: u32 = 4;

/// Largest number of hosts in a group here.
const HOSTS_MAX: usize = 64;

/// Largest number of points, as in the plan's reference.
const POINTS_MAX: usize = 10_000;

/// Reads a text as both.
///
/// # Panics
/// When reading panics, a problem has no position, or the result is not within its limits.
pub fn check(text: &str) {
    match Plan::parse(text, NAME) {
        Ok(plan) => measure(&plan),
        Err(problems) => inspect(&problems, text),
    }
    match ScenarioFile::parse(text, NAME).and_then(|file| file.scenario(&[])) {
        Ok(scenario) => sizes(&scenario),
        Err(problems) => inspect(&problems, text),
    }
}

/// Expands the plan with a few nodes, some of which are in several groups.
fn measure(plan: &Plan) {
    assert!(!plan.name.is_empty() && !plan.groups.is_empty() && !plan.steps.is_empty());
    let nodes = plan.groups.iter().enumerate().map(|(index, group)| {
        let count = match &group.members {
            Members::Count(count) => (*count).min(NODES_MAX),
            Members::Hosts(words) => {
                let hosts = host_list(&words.join(","), HOSTS_MAX).unwrap_or_default();
                assert!(hosts.len() <= HOSTS_MAX, "{} hosts", hosts.len());
                1
            }
            Members::Nids(words) => (words.len() as u32).min(NODES_MAX),
        };
        let first = index as u32 * 2;
        (first..first + count).map(|node| Nid::new4(Net::TCP, 0x0a00_0001 + node)).collect()
    });
    let nodes: Vec<Vec<Nid>> = nodes.collect();
    let points = match points(plan, &nodes) {
        Ok(points) => points,
        Err(why) => {
            let why = why.to_string();
            let named = |step: &Step| why.starts_with(&format!("step {}: ", step.name));
            assert!(plan.steps.iter().any(named), "{why:?} names no step");
            return;
        }
    };
    assert!(points.len() <= POINTS_MAX, "{} points", points.len());
    for point in &points {
        assert_eq!(point.name, plan.steps[point.step].name);
        assert!(point.repeat < plan.steps[point.step].repeat);
        assert!(!point.flows.is_empty() && !point.nodes().is_empty());
        for flow in &point.flows {
            assert!(flow.line < point.lines.len());
            assert!(!flow.clients.is_empty() && !flow.servers.is_empty());
            assert!((1..=flow.servers.len()).contains(&(flow.spread.servers as usize)));
            assert!(flow.spread.clients > 0 && flow.concurrency > 0);
            assert_eq!(flow.test.len() % 8, 0);
        }
    }
}

fn sizes(scenario: &Scenario) {
    assert!(!scenario.sites.is_empty());
    assert!(scenario.events.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert!(!format!("{scenario:?}").is_empty());
}

/// Every problem has a position and a name.
fn inspect(problems: &Problems, text: &str) {
    let shown = problems.to_string();
    assert!(problems.iter().next().is_some(), "wrong, and nothing is");
    assert!(shown.starts_with(&format!("{NAME}:")), "{shown:?} has no place");
    let lines = text.split(['\n', '\r']).count() + 1;
    for problem in problems.iter() {
        assert!(!problem.what.is_empty());
        let Location::File(at) = &problem.at else { panic!("{problem:?} is not of the text") };
        let at = at.to_string();
        let line: usize = at.split(':').next().and_then(|line| line.parse().ok()).unwrap_or(0);
        assert!((1..=lines).contains(&line), "{at:?} is not in a text of {lines} lines");
    }
}
