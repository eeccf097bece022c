//! The trunks from site to site.

use std::collections::BTreeSet;

use super::{Fabric, SiteId, TrunkId};

impl Fabric {
    /// The trunks from one site to another with the least delay; of those, with the fewest trunks;
    /// of those, the first added.
    pub(super) fn route(&mut self, from: SiteId, to: SiteId) -> Option<Vec<TrunkId>> {
        if let Some(known) = self.routes.get(&(from, to)) {
            return known.clone();
        }
        let found = self.search(from, to);
        self.routes.insert((from, to), found.clone());
        found
    }

    /// Dijkstra's search.
    fn search(&self, from: SiteId, to: SiteId) -> Option<Vec<TrunkId>> {
        // The best delay and count so far; the trunk, and the site before.
        let mut best = vec![None; self.sites as usize];
        let mut done = vec![false; self.sites as usize];
        let mut open = BTreeSet::from([((0, 0), from)]);
        best[from.0 as usize] = Some(((0, 0), None));
        while let Some((so_far, site)) = open.pop_first() {
            if core::mem::replace(&mut done[site.0 as usize], true) {
                continue;
            }
            if site == to {
                break;
            }
            for (index, trunk) in self.trunks.iter().enumerate() {
                let next = match trunk.sites {
                    (one, two) if one == site => two,
                    (one, two) if two == site => one,
                    _ => continue,
                };
                let delay = self.directions[trunk.links[0].0.0 as usize].spec().delay.0;
                let sum: (u64, u32) = (so_far.0 + delay, so_far.1 + 1);
                let known = &mut best[next.0 as usize];
                if known.is_none_or(|(known, _)| sum < known) {
                    *known = Some((sum, Some((TrunkId(index as u32), site))));
                    open.insert((sum, next));
                }
            }
        }
        let mut trunks = Vec::new();
        let mut site = to;
        while let Some((trunk, before)) = best[site.0 as usize]?.1 {
            trunks.push(trunk);
            site = before;
        }
        trunks.reverse();
        Some(trunks)
    }
}
