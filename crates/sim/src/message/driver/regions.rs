//! The regions of memory that a driver may use.

use lustrine_lnet::memory::Span;

use crate::memory::RegionChange;

/// Registered regions: what a driver for an RDMA network would have made known to its card.
#[derive(Debug, Default)]
pub(super) struct Regions {
    /// Their lengths by number; `None` is not registered.
    lens: Vec<Option<u32>>,
}

impl Regions {
    /// Registers a region, or forgets one.
    ///
    /// # Panics
    /// When it is registered twice, or forgotten without having been registered.
    pub(super) fn change(&mut self, change: RegionChange) {
        let (RegionChange::Added { region, .. } | RegionChange::Removed { region }) = change;
        let place = region as usize;
        self.lens.resize(self.lens.len().max(place + 1), None);
        match change {
            RegionChange::Added { len, .. } => {
                let before = self.lens[place].replace(len);
                assert_eq!(before, None, "region {region} is registered twice");
            }
            RegionChange::Removed { .. } => {
                let before = self.lens[place].take();
                assert!(before.is_some(), "region {region} was never registered");
            }
        }
    }

    /// # Panics
    /// When a span does not lie in a registered region: the driver must not be given such a span.
    pub(super) fn check(&self, spans: &[Span]) {
        for span in spans {
            let len = self.lens.get(span.region as usize).copied().flatten();
            let end = u64::from(span.offset) + u64::from(span.len);
            let inside = len.is_some_and(|len| end <= u64::from(len));
            assert!(inside, "{span:?} is not in a registered region");
        }
    }
}

#[cfg(test)]
mod tests {
    use lustrine_lnd_testing::{Input, ModelCore, turn};
    use lustrine_lnet::lnd::{NiIndex, SendAction};
    use lustrine_lnet::memory::Memory;
    use lustrine_lnet::time::Nanos;
    use lustrine_partition::{Driver, tunables::Tunables};
    use lustrine_wire::header::{Body, Header, MdHandle};
    use lustrine_wire::nid::{Net, Nid, ProcessId};

    use super::super::{DriverConfig, DriverIo, MessageDriver, Wire};
    use super::*;
    use crate::memory::RopeMemory;
    use crate::network::HostId;
    use crate::stream::BEGIN;
    use crate::tcp::TcpSpec;

    const ADDED: RegionChange = RegionChange::Added { region: 3, len: 100 };

    fn span(offset: u32, len: u32) -> Span {
        Span { region: 3, offset, len }
    }

    #[test]
    fn spans_in_a_registered_region_are_good() {
        let mut regions = Regions::default();
        regions.change(ADDED);
        regions.check(&[span(0, 100), span(100, 0), span(20, 80)]);
        regions.change(RegionChange::Removed { region: 3 });
        regions.change(RegionChange::Added { region: 3, len: 200 });
        regions.check(&[span(0, 200)]);
    }

    #[test]
    #[should_panic(expected = "not in a registered region")]
    fn a_span_behind_its_region_is_found() {
        let mut regions = Regions::default();
        regions.change(ADDED);
        regions.check(&[span(0, 100), span(1, 100)]);
    }

    #[test]
    #[should_panic(expected = "not in a registered region")]
    fn a_span_of_a_region_that_is_gone_is_found() {
        let mut regions = Regions::default();
        regions.change(ADDED);
        regions.change(RegionChange::Removed { region: 3 });
        regions.check(&[span(0, 1)]);
    }

    /// Submits a message in memory that reports its regions, or does not.
    fn submit(tracked: bool) {
        let config = DriverConfig {
            tcp: TcpSpec::default(),
            host: HostId(0),
            nids: Vec::new(),
            incarnation: 1,
            listens: true,
            answers_gets: false,
        };
        let mut driver = MessageDriver::new(config, &Tunables::default());
        let nid = |last| Nid::new4(Net::TCP, last);
        driver.add_ni(NiIndex(0), nid(1));
        let (mut memory, mut wire) = (RopeMemory::new(1 << 20), Wire::new(1, BEGIN));
        if tracked {
            memory.track_regions();
        }
        let mut core = ModelCore::default();
        let payload = memory.alloc(8).into_iter().collect();
        let [src, to] = [1, 2].map(|last| ProcessId::lustre(nid(last)));
        let ack_md = MdHandle::NONE;
        let body = Body::Put { ack_md, match_bits: 0, hdr_data: 0, portal: 30, offset: 0 };
        let header = Header { dst: to, src, payload_len: 8, body };
        let deadline = BEGIN + Nanos::from_secs(1);
        core.start(|op| SendAction { op, ni: NiIndex(0), to, header, payload, deadline });
        let arrived = &mut Vec::new();
        let mut io = DriverIo { memory: &mut memory, wire: &mut wire, arrived };
        turn(BEGIN, &mut driver, &mut core, &mut io, Input::default(), |_, nid| nid);
        assert_eq!(core.ended.len(), 1, "no node has that NID");
    }

    #[test]
    fn the_driver_takes_spans_that_were_registered() {
        submit(true);
    }

    #[test]
    #[should_panic(expected = "not in a registered region")]
    fn the_driver_finds_spans_that_were_not_registered() {
        submit(false);
    }
}
