use crate::parse::parse;

use super::*;

/// Two ways from west to east: over north, and over south.
const DIAMOND: &str = "\
hosts: {west: {}, east: {}, north: {}, south: {}}
links:
  - {between: [west, north]}
  - {between: [north, east]}
  - {between: [west, south], addresses: [10.1.0.1, 10.1.0.2]}
  - {between: [south, east]}
";

fn lab(text: &str) -> Lab {
    parse(text, "lab.yaml").unwrap_or_else(|problems| panic!("{problems}"))
}

fn names(lab: &Lab, from: usize, to: usize) -> Vec<&str> {
    let path = Layout::new(lab).path(lab, from, to).expect("a path");
    path.into_iter().map(|host| &*lab.hosts[host].name).collect()
}

#[test]
fn interfaces_are_numbered_in_the_order_of_the_links() {
    let lab = lab(DIAMOND);
    let layout = Layout::new(&lab);
    let shown: Vec<String> = layout.interfaces[0]
        .iter()
        .map(|end| format!("{} {} {}", end.name, end.address, end.peer_address))
        .collect();
    assert_eq!(shown, ["eth0 10.99.0.1 10.99.0.2", "eth1 10.1.0.1 10.1.0.2"]);
    assert_eq!(layout.address(1), Some("10.99.1.2".parse().unwrap()));
    let hosts = layout.hosts_file(&lab);
    assert!(hosts.contains("10.99.1.2 east east.eth0\n"), "{hosts}");
    assert!(hosts.contains("10.99.3.2 east.eth1\n"), "{hosts}");
}

#[test]
fn paths_are_short_and_can_be_asymmetric() {
    let symmetric = lab(DIAMOND);
    assert_eq!(names(&symmetric, 0, 1), ["west", "north", "east"]);
    assert_eq!(names(&symmetric, 1, 0), ["east", "north", "west"]);
    let text = format!("{DIAMOND}routes: [{{from: east, to: west, via: south}}]\n");
    let asymmetric = lab(&text);
    assert_eq!(names(&asymmetric, 0, 1), ["west", "north", "east"]);
    assert_eq!(names(&asymmetric, 1, 0), ["east", "south", "west"]);
}

/// Every address of a host is reached on the same way.
#[test]
fn routes_lead_to_all_addresses() {
    let lab = lab(DIAMOND);
    let layout = Layout::new(&lab);
    let to_east: Vec<&Route> = layout.routes[0]
        .iter()
        .filter(|route| layout.interfaces[1].iter().any(|end| end.address == route.to))
        .collect();
    assert_eq!(to_east.len(), 2);
    assert!(to_east.iter().all(|route| route.interface == 0), "{to_east:?}");
}

#[test]
fn hosts_that_nothing_joins_have_no_path() {
    let lab = lab("hosts: {a: {}, b: {}, c: {}}\nlinks: [{between: [a, b]}]\n");
    let layout = Layout::new(&lab);
    assert_eq!(layout.path(&lab, 0, 2), None);
    assert_eq!(layout.address(2), None);
    assert!(layout.routes[2].is_empty());
}
