use super::*;

const GIGABIT: u64 = 1_000_000_000;

fn link(gigabits: u64, delay_us: u64) -> LinkSpec {
    LinkSpec {
        rate: Rate::from_bits(gigabits * GIGABIT),
        delay: Nanos::from_micros(delay_us),
        ..LinkSpec::default()
    }
}

fn whole(len: u64) -> Burst {
    Burst::new(len, len)
}

fn at(micros: u64) -> Time {
    Time(micros * 1000)
}

/// Two hosts at two sites.
fn two_sites(trunks: &[LinkSpec], hashing: Hashing) -> (Fabric, TrunkId) {
    let mut fabric = Fabric::default();
    let sites = (fabric.add_site(), fabric.add_site());
    let trunk = fabric.add_trunk(sites, trunks, hashing);
    fabric.place(HostId(0), sites.0, link(10, 1));
    fabric.place(HostId(1), sites.1, link(10, 1));
    (fabric, trunk)
}

#[test]
fn serialisation_and_propagation_add_up() {
    let (mut fabric, _) = two_sites(&[link(1, 100)], Hashing::Hosts);
    let hops = fabric.hops(HostId(0), HostId(1), 0).unwrap();
    assert_eq!(hops.len(), 3);
    assert_eq!(fabric.delay(&hops), Nanos::from_micros(102));
    assert_eq!(fabric.rate(&hops), Rate::from_bits(GIGABIT));
    let mut now = at(1000);
    for (hop, micros) in hops.iter().zip([2, 110, 2]) {
        let Transit::At(out) = fabric.pass(*hop, now, whole(1250), &mut Rng::new(1)) else {
            panic!()
        };
        assert_eq!(out.since(now), Nanos::from_micros(micros));
        now = out;
    }
}

#[test]
fn simultaneous_data_waits_and_what_does_not_fit_is_lost() {
    let spec = LinkSpec { queue: 3000, ..link(1, 0) };
    let (mut fabric, trunk) = two_sites(&[spec], Hashing::Hosts);
    let hop = fabric.links(trunk)[0].0;
    let rng = &mut Rng::new(1);
    let mut pass = |now| fabric.pass(hop, at(now), whole(1250), rng);
    assert_eq!(pass(100), Transit::At(at(110)));
    assert_eq!(pass(100), Transit::At(at(120)));
    assert_eq!(pass(100), Transit::Lost);
    assert_eq!(pass(106), Transit::At(at(130)), "there is room again");
    assert_eq!(fabric.glance(&[hop], at(106)), Some(Nanos::from_micros(24)));
    let used = fabric.used(hop, at(120));
    assert_eq!((used.bytes, used.lost), (3750, 1250));
    assert_eq!(used.busy, Nanos::from_micros(20));
    assert_eq!(used.queue_max, 3000);
    assert_eq!(used.waited, 1250 * (10 + 14));
}

/// 12,500 bytes wait when the rate changes, and no more and no less afterwards.
#[test]
fn a_queue_keeps_its_bytes_when_the_rate_changes() {
    let spec = LinkSpec { queue: 20_000, ..link(1, 0) };
    let (mut fabric, trunk) = two_sites(&[spec], Hashing::Hosts);
    let hop = fabric.links(trunk)[0].0;
    let rng = &mut Rng::new(1);
    assert_eq!(fabric.pass(hop, at(100), whole(12_500), rng), Transit::At(at(200)));
    fabric.change(hop, at(100), LinkSpec { queue: 20_000, ..link(10, 0) });
    assert_eq!(fabric.room(hop, at(100)), 7500);
    assert_eq!(fabric.glance(&[hop], at(100)), Some(Nanos::from_micros(10)));
    fabric.change(hop, at(105), spec);
    assert_eq!(fabric.room(hop, at(105)), 20_000 - 6250);
    assert_eq!(fabric.glance(&[hop], at(105)), Some(Nanos::from_micros(50)));
    // It was busy from the beginning, and is until all has left at the rates that it had.
    assert_eq!(fabric.used(hop, at(105)).busy, Nanos::from_micros(5));
    assert_eq!(fabric.used(hop, at(155)).busy, Nanos::from_micros(55));
    assert_eq!(fabric.used(hop, at(900)).busy, Nanos::from_micros(55));
}

#[test]
fn a_cut_link_carries_nothing_and_its_other_direction_still_works() {
    let (mut fabric, trunk) = two_sites(&[link(1, 10)], Hashing::Hosts);
    let (there, back) = fabric.links(trunk)[0];
    fabric.cut(there, true);
    assert_eq!(fabric.pass(there, at(1), whole(10), &mut Rng::new(1)), Transit::Lost);
    assert_eq!(fabric.glance(&[there], at(1)), None);
    assert!(matches!(fabric.pass(back, at(1), whole(10), &mut Rng::new(1)), Transit::At(_)));
    fabric.cut(there, false);
    assert!(matches!(fabric.pass(there, at(1), whole(10), &mut Rng::new(1)), Transit::At(_)));
}

#[test]
fn loss_is_per_packet_whatever_the_size_of_packets_is() {
    let spec = LinkSpec { loss: 10_000_000, ..LinkSpec::default() };
    let (mut fabric, trunk) = two_sites(&[spec], Hashing::Hosts);
    let hop = fabric.links(trunk)[0].0;
    let rng = &mut Rng::new(7);
    for packet in [1538, 9038] {
        let mut lost = |packets| {
            let burst = Burst::new(packets * packet, packet);
            (0..10_000).filter(|_| fabric.pass(hop, at(1), burst, rng) == Transit::Lost).count()
        };
        let (one, ten) = (lost(1), lost(10));
        assert!((70..130).contains(&one), "{one}");
        // 1 - 0.99^10 = 9.6 %.
        assert!((860..1060).contains(&ten), "{ten}");
    }
    assert!((0..1000).all(|_| fabric.pass(hop, at(1), Burst::sure(1 << 20), rng) != Transit::Lost));
}

#[test]
fn the_number_of_lost_packets_is_that_of_single_ones() {
    let losses = |loss, packets, seed| {
        let (fabric, trunk) = two_sites(&[LinkSpec { loss, ..link(1, 0) }], Hashing::Hosts);
        let (hop, rng) = (fabric.links(trunk)[0].0, &mut Rng::new(seed));
        (0..1000).map(|_| fabric.losses(hop, packets, rng)).collect::<Vec<u64>>()
    };
    // The mean is 7.24, and 0.99^724 = 0.07 % have no loss at all.
    let seen = losses(10_000_000, 724, 7);
    assert!((7000..7500).contains(&seen.iter().sum::<u64>()), "{seen:?}");
    assert!(seen.iter().filter(|lost| **lost == 0).count() < 5);
    assert!(losses(0, 724, 7).iter().all(|lost| *lost == 0));
    assert!(losses(1_000_000_000, 724, 7).iter().all(|lost| *lost == 724));
    let halves = losses(500_000_000, 1, 7).iter().sum::<u64>();
    assert!((440..560).contains(&halves), "{halves}");
}

#[test]
fn jitter_delays_but_nothing_overtakes() {
    let spec = LinkSpec { jitter: Nanos::from_micros(500), ..link(100, 10) };
    let (mut fabric, trunk) = two_sites(&[spec], Hashing::Hosts);
    let hop = fabric.links(trunk)[0].0;
    let rng = &mut Rng::new(3);
    let mut last = at(0);
    for now in 0..1000 {
        let Transit::At(out) = fabric.pass(hop, at(now), whole(100), rng) else { panic!("lost") };
        assert!(out >= last && out >= at(now + 10) && out <= at(now + 511));
        last = out;
    }
}

#[test]
fn streams_spread_over_parallel_links_and_hosts_stay_on_one() {
    let links = [link(50, 10), link(50, 10)];
    for (hashing, spread) in [(Hashing::Hosts, false), (Hashing::Streams, true)] {
        let (mut fabric, trunk) = two_sites(&links, hashing);
        let all = fabric.links(trunk).to_vec();
        let mut counts = [0; 2];
        for stream in 0..100 {
            let there = fabric.hops(HostId(0), HostId(1), stream).unwrap()[1];
            let back = fabric.hops(HostId(1), HostId(0), stream).unwrap()[1];
            let index = all.iter().position(|link| link.0 == there).unwrap();
            assert_eq!(all[index].1, back, "both directions take one link");
            counts[index] += 1;
        }
        assert_eq!(counts.iter().all(|count| (30..=70).contains(count)), spread, "{counts:?}");
    }
}

#[test]
fn the_path_with_the_least_delay_is_taken() {
    let mut fabric = Fabric::default();
    let [a, b, c, far] = [(); 4].map(|()| fabric.add_site());
    let direct = fabric.add_trunk((a, c), &[link(1, 100)], Hashing::Hosts);
    let first = fabric.add_trunk((b, a), &[link(1, 30)], Hashing::Hosts);
    let second = fabric.add_trunk((b, c), &[link(1, 30)], Hashing::Hosts);
    assert_eq!(fabric.route(a, c), Some(vec![first, second]));
    assert_eq!(fabric.route(c, a), Some(vec![second, first]));
    assert_eq!(fabric.route(a, a), Some(vec![]));
    assert_eq!(fabric.route(a, far), None);
    let quick = fabric.add_trunk((a, far), &[link(1, 1)], Hashing::Hosts);
    assert_eq!(fabric.route(b, far), Some(vec![first, quick]));
    fabric.place(HostId(4), b, link(1, 0));
    fabric.place(HostId(5), c, link(1, 0));
    let hops = fabric.hops(HostId(5), HostId(4), 0).unwrap();
    assert_eq!(hops[1], fabric.links(second)[0].1, "against the trunk it was added");
    let _ = direct;
}
