//! Configurations that change during a random run, and a management server that crashes.

use lustrine_client::ConfigLock;
use lustrine_lnet::time::Nanos;
use lustrine_server::ConfigChange;

use super::{Fault, seconds};
use crate::world::{MGS, Rng, World};

/// Changes of the configuration, and crashes of the management server.
pub(super) fn faults(rng: &mut Rng, evictions: bool) -> Vec<(Nanos, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..rng.below(4) {
        let at = Nanos::from_millis(rng.below(200_000));
        faults.push((at, Fault::Configure(rng.between(1, 30) as u16)));
        if rng.chance(1, 3) {
            let soon = Nanos(at.0 + Nanos::from_millis(rng.below(15_000)).0);
            faults.push((soon, Fault::Configure(rng.between(1, 30) as u16)));
        }
    }
    if rng.chance(1, 3) {
        let at = Nanos::from_millis(rng.below(200_000));
        faults.push((at, Fault::Mgs(false)));
        faults.push((Nanos(at.0 + seconds(rng.between(1, 100)).0), Fault::Mgs(true)));
    }
    if evictions && rng.chance(1, 4) {
        faults.push((Nanos::from_millis(rng.below(200_000)), Fault::Evict(0, MGS)));
    }
    faults
}

/// Sets a limit for all clients.
pub(super) fn configure(world: &mut World, limit: u16) {
    set_param(world, &format!("osc.*.max_rpcs_in_flight={limit}"));
}

/// Sets a parameter for all clients.
pub(super) fn set_param(world: &mut World, parameter: &str) {
    let change = ConfigChange::SetParam(parameter.to_owned());
    world.at_server(|server, turn| server.configure(turn, "lustre", &change));
}

/// Whether each client has read the last change, and has the locks to be notified of another one.
///
/// # Errors
/// What it does not know.
pub(super) fn check(world: &mut World, faults: &[(Nanos, Fault)]) -> Result<(), String> {
    let of_configuration = |(_, fault): &(Nanos, Fault)| match fault {
        Fault::Configure(limit) => Some(*limit),
        _ => None,
    };
    let last = faults.iter().filter_map(of_configuration).next_back();
    // A management server that was down for long: the next attempt to connect, and the pause after.
    world.pass(150);
    for (number, client) in world.clients.iter().enumerate() {
        let configs = client.mgc(world.now).configs;
        if let Some(config) = configs.iter().find(|config| config.lock != ConfigLock::Held) {
            return Err(format!("client {number} does not follow: {config:?}"));
        }
        for (import, _) in client.targets() {
            let (view, limit) = (import.view(), import.tunables().max_rpcs_in_flight);
            let is_ost = view.target.contains("OST");
            if is_ost && last.is_some_and(|last| last != limit) {
                let target = view.target;
                return Err(format!("client {number}: {target} has {limit}, not {last:?}"));
            }
        }
    }
    Ok(())
}
