//! Matching against a model, and lazy portals ([CORE-6] to [CORE-9]).

use super::*;

/// One attached entry, and its state in the model.
#[derive(Clone, Copy, Debug)]
struct Listed {
    bits: u64,
    ignore: u64,
    from: Option<usize>,
    front: bool,
    options: MdOptions,
    length: u32,
    threshold: u32,
    max_size: Option<u32>,
    offset: u32,
}

impl Listed {
    fn exhausted(&self) -> bool {
        self.threshold == 0
            || self
                .max_size
                .is_some_and(|max| u64::from(self.offset) + u64::from(max) > u64::from(self.length))
    }
}

/// The rules of [CORE-7] on a plain list: entries with ignore bits first, then exact ones.
fn model_match(
    list: &mut [(u64, Listed)],
    from: usize,
    bits: u64,
    len: u32,
) -> Option<(u64, u32, u32)> {
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|at| list[*at].1.ignore == 0);
    for at in order {
        let (user, entry) = &mut list[at];
        if entry.exhausted()
            || !entry.options.contains(MdOptions::OP_PUT)
            || (entry.bits ^ bits) & !entry.ignore != 0
            || entry.from.is_some_and(|only| only != from)
        {
            continue;
        }
        let room = entry.length - entry.offset;
        let space = entry.max_size.map_or(room, |max| max.min(room));
        if len > space && !entry.options.contains(MdOptions::TRUNCATE) {
            return None;
        }
        let stored = len.min(space);
        let at_offset = entry.offset;
        entry.threshold -= 1;
        entry.offset += stored;
        return Some((*user, at_offset, stored));
    }
    None
}

fn listed() -> impl Strategy<Value = Listed> {
    (
        (
            0u64..4,
            prop_oneof![Just(0u64), Just(1), Just(u64::MAX)],
            proptest::option::of(1usize..3),
        ),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        (0u32..40, 1u32..4, proptest::option::of(1u32..30)),
    )
        .prop_map(
            |((bits, ignore, from), (front, put, truncate), (length, threshold, max_size))| {
                let mut options = if put { MdOptions::OP_PUT } else { MdOptions::OP_GET };
                if truncate {
                    options |= MdOptions::TRUNCATE;
                }
                Listed {
                    bits,
                    ignore,
                    from,
                    front,
                    options,
                    length,
                    threshold,
                    max_size,
                    offset: 0,
                }
            },
        )
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        entries in proptest::collection::vec(listed(), 0..8),
        puts in proptest::collection::vec((1usize..3, 0u64..4, 0u32..40), 0..24),
    ) {
        let mut net = Net::new(3, &Tunables::default());
        let mut model: Vec<(u64, Listed)> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let user = index as u64;
            let nid = entry.from.map_or(Nid::ANY, test_nid);
            // All wildcard: any PID, so that kinds never clash.
            let placed = MatchEntry {
                from: MatchId { nid, pid: PID_ANY },
                position: if entry.front { Position::Before } else { Position::After },
                ..anybody(entry.bits, entry.ignore)
            };
            let span = net.span(0, entry.length, 0);
            let mut md = md(span, Some(entry.threshold), entry.options, user);
            md.max_size = entry.max_size;
            net.attach(0, 30, placed, md);
            if entry.front { model.insert(0, (user, *entry)) } else { model.push((user, *entry)) }
        }
        for (from, bits, len) in puts {
            let span = net.span(from, len, 1);
            let md = net.bind(from, span, 1, 0);
            net.put(from, put_args(md, process(0), 30, bits));
            net.run(NOW);
            let got = net.events(0).first().map(|e| (e.user, e.offset, e.moved));
            prop_assert_eq!(got, model_match(&mut model, from, bits, len));
        }
        net.assert_quiet();
    }
}

#[test]
fn lazy_portal_parks_and_later_attaches_take_in_order() {
    let mut net = Net::new(2, &Tunables::default());
    net.nodes[1].shard.set_lazy(50, Laziness::Lazy).unwrap();
    for bits in [11, 12, 11] {
        let span = net.span(0, 8, bits as u8);
        let md = net.bind(0, span, 1, bits);
        net.put(0, put_args(md, process(1), 50, bits));
    }
    net.run(NOW);
    assert!(net.events(1).is_empty());
    let sink = net.span(1, 64, 0);
    net.attach(1, 50, anybody(11, 0), md(sink, Some(2), MdOptions::OP_PUT, 1));
    net.run(NOW);
    let taken: Vec<_> =
        net.events(1).iter().map(|e| (e.match_bits, e.offset, e.unlinked)).collect();
    assert_eq!(taken, [(11, 0, false), (11, 8, true)]);
    net.nodes[1].shard.set_lazy(50, Laziness::Strict).unwrap();
    net.run(NOW);
    assert_eq!(net.nodes[1].shard.stats().dropped.put, 1);
    net.assert_quiet();
}

#[test]
fn a_parked_message_whose_connection_dies_is_forgotten() {
    let mut net = Net::new(2, &Tunables::default());
    let shard = &mut net.nodes[1].shard;
    shard.set_lazy(50, Laziness::Lazy).unwrap();
    let header = Header {
        dst: process(1),
        src: process(0),
        payload_len: 8,
        body: Body::Put {
            ack_md: MdHandle::NONE,
            match_bits: 1,
            hdr_data: 0,
            portal: 50,
            offset: 0,
        },
    };
    let arrival = Arrival { ni: NiIndex(0), from: process(0), rx: RxId(77) };
    assert_eq!(shard.recv_header(NOW, arrival, &header), Verdict::Park);
    shard.forget(NiIndex(0), RxId(77));
    let sink = net.span(1, 64, 0);
    net.attach(1, 50, anybody(1, 0), md(sink, Some(2), MdOptions::OP_PUT, 1));
    assert!(net.nodes[1].shard.next_action().is_none());
}
