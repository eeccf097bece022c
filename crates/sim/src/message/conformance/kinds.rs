//! The drivers that the suite runs with, and what each needs of the testbed.

use core::net::{IpAddr, SocketAddr};

use lustrine_lnet::driver_report::{DriverCounter, DriverNotice, DriverOffender, DriverPeer};
use lustrine_lnet::lnd::{Action, Core, NiIndex};
use lustrine_lnet::memory::{HasMemory, Span};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_partition::tunables::Tunables;
use lustrine_partition::{Driver, DriverOn, DriverPair, Either, StreamReport};
use lustrine_socklnd::io::{Io, IoError, IoOutcome, Piece, SockId, SourcePort, WriteMode};
use lustrine_socklnd::{Config, Handoff, NiConfig, Socklnd};
use lustrine_wire::nid::Nid;

use super::super::driver::{DriverConfig, DriverIo, MessageDriver};
use super::super::packet::Packet;
use super::super::wire::Wire;
use crate::io::VirtualIo;
use crate::memory::RopeMemory;
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::tcp::TcpSpec;

/// Byte streams, whole messages, and memory of one partition, for the length of one call.
#[derive(Debug)]
pub(super) struct BothIo<'a> {
    pub(super) streams: VirtualIo<'a>,
    pub(super) wire: &'a mut Wire,
}

impl HasMemory for BothIo<'_> {
    type Inner = RopeMemory;

    fn memory(&self) -> &RopeMemory {
        self.streams.memory
    }

    fn memory_mut(&mut self) -> &mut RopeMemory {
        self.streams.memory
    }
}

impl Io for BothIo<'_> {
    fn connect(
        &mut self,
        local: Option<IpAddr>,
        source: SourcePort,
        remote: SocketAddr,
    ) -> Result<SockId, IoError> {
        self.streams.connect(local, source, remote)
    }

    fn connected(&mut self, sock: SockId) -> Result<(), IoError> {
        self.streams.connected(sock)
    }

    fn read(&mut self, sock: SockId, spans: &[Span], tail: &mut [u8]) -> IoOutcome {
        self.streams.read(sock, spans, tail)
    }

    fn write(&mut self, sock: SockId, pieces: &[Piece<'_>], mode: WriteMode) -> IoOutcome {
        self.streams.write(sock, pieces, mode)
    }

    fn close(&mut self, sock: SockId) {
        self.streams.close(sock);
    }

    fn responds(&mut self, sock: SockId, within: Nanos) -> bool {
        self.streams.responds(sock, within)
    }

    fn unacknowledged(&self, sock: SockId) -> u64 {
        self.streams.unacknowledged(sock)
    }

    fn crc(&self, state: u32, span: Span) -> u32 {
        self.streams.crc(state, span)
    }
}

/// What a partition of a node is made of.
pub(super) struct Make<'a> {
    pub(super) spec: &'a NodeSpec,
    pub(super) cpt: u16,
    pub(super) host: HostId,
}

impl Make<'_> {
    fn config(&self) -> Config {
        // Interfaces are added one by one.
        Config { nis: Vec::new(), ..self.spec.config(self.cpt).driver }
    }

    fn streams(&self) -> Socklnd {
        Socklnd::new(self.config())
    }

    fn messages(&self, answers_gets: bool) -> OnBoth {
        let config = DriverConfig {
            tcp: TcpSpec::default(),
            host: self.host,
            nids: Vec::new(),
            incarnation: self.spec.incarnation,
            listens: self.spec.accept.is_some(),
            answers_gets,
        };
        OnBoth(MessageDriver::new(config, &self.spec.tunables))
    }
}

fn stream_ni(spec: &NodeSpec, nid: Nid) -> NiConfig {
    let config = NodeSpec { nids: vec![nid], ..spec.clone() }.config(0).driver;
    config.nis.into_iter().next().expect("one for each NID")
}

/// A driver, or a pair of them, in the testbed.
pub(super) trait Kind: Sized + 'static {
    type Driver: for<'a> DriverOn<BothIo<'a>>;

    /// Whether it needs registered memory.
    const REGISTERS: bool = true;

    /// A driver without interfaces.
    fn driver(make: &Make<'_>) -> Self::Driver;
    /// What describes an interface.
    fn ni_config(spec: &NodeSpec, ni: NiIndex, nid: Nid) -> NiConfigOf<Self>;
    /// A report about a stream.
    fn stream(report: StreamReport) -> ReportOf<Self>;
    /// A packet that has arrived.
    fn packet(packet: Box<Packet>) -> ReportOf<Self>;
    /// The stream that is handed over.
    fn handed_over(handoff: &<Self::Driver as Driver>::Handoff) -> SockId;
    /// What a host sends for a process that was killed.
    fn farewells(driver: &Self::Driver) -> Vec<Packet>;
}

pub(super) type NiConfigOf<K> = <<K as Kind>::Driver as Driver>::NiConfig;
pub(super) type ReportOf<K> = <<K as Kind>::Driver as Driver>::Report;

/// Socklnd alone.
pub(super) struct OnStreams;

impl Kind for OnStreams {
    type Driver = Socklnd;

    const REGISTERS: bool = false;

    fn driver(make: &Make<'_>) -> Socklnd {
        make.streams()
    }

    fn ni_config(spec: &NodeSpec, _: NiIndex, nid: Nid) -> NiConfig {
        stream_ni(spec, nid)
    }

    fn stream(report: StreamReport) -> StreamReport {
        report
    }

    fn packet(_: Box<Packet>) -> StreamReport {
        unreachable!("socklnd sends no packets")
    }

    fn handed_over(handoff: &Handoff) -> SockId {
        handoff.sock
    }

    fn farewells(_: &Socklnd) -> Vec<Packet> {
        Vec::new()
    }
}

/// The message driver alone.
pub(super) struct OnMessages;

impl Kind for OnMessages {
    type Driver = OnBoth;

    fn driver(make: &Make<'_>) -> OnBoth {
        make.messages(false)
    }

    fn ni_config(_: &NodeSpec, _: NiIndex, nid: Nid) -> Nid {
        nid
    }

    fn stream(_: StreamReport) -> Box<Packet> {
        unreachable!("the message driver has no streams")
    }

    fn packet(packet: Box<Packet>) -> Box<Packet> {
        packet
    }

    fn handed_over(handoff: &core::convert::Infallible) -> SockId {
        match *handoff {}
    }

    fn farewells(driver: &OnBoth) -> Vec<Packet> {
        driver.0.farewells()
    }
}

/// The message driver alone, which answers GETs in place.
pub(super) struct OnMessagesInPlace;

impl Kind for OnMessagesInPlace {
    type Driver = OnBoth;

    fn driver(make: &Make<'_>) -> OnBoth {
        make.messages(true)
    }

    fn ni_config(spec: &NodeSpec, ni: NiIndex, nid: Nid) -> Nid {
        OnMessages::ni_config(spec, ni, nid)
    }

    fn stream(report: StreamReport) -> Box<Packet> {
        OnMessages::stream(report)
    }

    fn packet(packet: Box<Packet>) -> Box<Packet> {
        packet
    }

    fn handed_over(handoff: &core::convert::Infallible) -> SockId {
        match *handoff {}
    }

    fn farewells(driver: &OnBoth) -> Vec<Packet> {
        OnMessages::farewells(driver)
    }
}

/// Both, the first interface socklnd's.
pub(super) struct StreamsThenMessages;

impl Kind for StreamsThenMessages {
    type Driver = DriverPair<Socklnd, OnBoth>;

    fn driver(make: &Make<'_>) -> Self::Driver {
        DriverPair::new(make.streams(), make.messages(false))
    }

    fn ni_config(spec: &NodeSpec, ni: NiIndex, nid: Nid) -> Either<NiConfig, Nid> {
        if ni.0 == 0 { Either::First(stream_ni(spec, nid)) } else { Either::Second(nid) }
    }

    fn stream(report: StreamReport) -> ReportOf<Self> {
        Either::First(report)
    }

    fn packet(packet: Box<Packet>) -> ReportOf<Self> {
        Either::Second(packet)
    }

    fn handed_over(handoff: &Either<Handoff, core::convert::Infallible>) -> SockId {
        match handoff {
            Either::First(handoff) => handoff.sock,
            Either::Second(none) => match *none {},
        }
    }

    fn farewells(driver: &Self::Driver) -> Vec<Packet> {
        driver.second().0.farewells()
    }
}

/// Both, the first interface the message driver's.
pub(super) struct MessagesThenStreams;

impl Kind for MessagesThenStreams {
    type Driver = DriverPair<Socklnd, OnBoth>;

    fn driver(make: &Make<'_>) -> Self::Driver {
        StreamsThenMessages::driver(make)
    }

    fn ni_config(spec: &NodeSpec, ni: NiIndex, nid: Nid) -> Either<NiConfig, Nid> {
        if ni.0 == 0 { Either::Second(nid) } else { Either::First(stream_ni(spec, nid)) }
    }

    fn stream(report: StreamReport) -> ReportOf<Self> {
        StreamsThenMessages::stream(report)
    }

    fn packet(packet: Box<Packet>) -> ReportOf<Self> {
        StreamsThenMessages::packet(packet)
    }

    fn handed_over(handoff: &Either<Handoff, core::convert::Infallible>) -> SockId {
        StreamsThenMessages::handed_over(handoff)
    }

    fn farewells(driver: &Self::Driver) -> Vec<Packet> {
        StreamsThenMessages::farewells(driver)
    }
}

/// The message driver at work on what a testbed has.
#[derive(Debug)]
pub(super) struct OnBoth(MessageDriver);

impl Driver for OnBoth {
    type NiConfig = Nid;
    type Report = Box<Packet>;
    type Handoff = core::convert::Infallible;

    fn has_work(&self) -> bool {
        self.0.has_work()
    }

    fn next_deadline(&self) -> Time {
        self.0.next_deadline()
    }

    fn set_tunables(&mut self, now: Time, tunables: &Tunables) {
        self.0.set_tunables(now, tunables);
    }

    fn add_ni(&mut self, index: NiIndex, config: Nid) {
        self.0.add_ni(index, config);
    }

    fn set_conns_per_peer(&mut self, index: NiIndex, conns_per_peer: u16) {
        self.0.set_conns_per_peer(index, conns_per_peer);
    }

    fn next_handoff(&mut self) -> Option<(u16, core::convert::Infallible)> {
        self.0.next_handoff()
    }

    fn connection_types(&self) -> Vec<&'static str> {
        self.0.connection_types()
    }

    fn counter_rows(&self) -> Vec<DriverCounter> {
        self.0.counter_rows()
    }

    fn peer_rows(&self) -> impl Iterator<Item = DriverPeer> + '_ {
        self.0.peer_rows()
    }

    fn take_notices(&mut self) -> Vec<DriverNotice> {
        self.0.take_notices()
    }

    fn take_offenders(&mut self) -> Vec<DriverOffender> {
        self.0.take_offenders()
    }
}

/// Calls the message driver with its part of what there is.
macro_rules! with_driver_io {
    ($io:ident, $driver_io:ident, $call:expr) => {{
        let mut arrived = Vec::new();
        let (memory, wire) = (&mut *$io.streams.memory, &mut *$io.wire);
        let $driver_io = &mut DriverIo { memory, wire, arrived: &mut arrived };
        $call
    }};
}

impl DriverOn<BothIo<'_>> for OnBoth {
    fn register_memory(&mut self, io: &mut BothIo<'_>) {
        with_driver_io!(io, driver_io, self.0.register_memory(driver_io));
    }

    fn report<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut BothIo<'_>,
        packet: Box<Packet>,
    ) {
        with_driver_io!(io, driver_io, self.0.report(now, core, driver_io, packet));
    }

    fn adopt<C: Core>(
        &mut self,
        _: Time,
        _: &mut C,
        _: &mut BothIo<'_>,
        handoff: core::convert::Infallible,
    ) {
        match handoff {}
    }

    fn tick<C: Core>(&mut self, now: Time, core: &mut C, io: &mut BothIo<'_>) {
        with_driver_io!(io, driver_io, self.0.tick(now, core, driver_io));
    }

    fn submit<C: Core>(&mut self, now: Time, core: &mut C, io: &mut BothIo<'_>, action: &Action) {
        with_driver_io!(io, driver_io, self.0.submit(now, core, driver_io, action));
    }

    fn flush<C: Core>(&mut self, now: Time, core: &mut C, io: &mut BothIo<'_>) {
        with_driver_io!(io, driver_io, self.0.flush(now, core, driver_io));
    }

    fn close_nids<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut BothIo<'_>,
        nids: &[Nid],
        status: Status,
    ) {
        with_driver_io!(io, driver_io, self.0.close_nids(now, core, driver_io, nids, status));
    }

    fn remove_ni<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut BothIo<'_>,
        ni: NiIndex,
        status: Status,
    ) {
        with_driver_io!(io, driver_io, self.0.remove_ni(now, core, driver_io, ni, status));
    }

    fn close_all<C: Core>(&mut self, now: Time, core: &mut C, io: &mut BothIo<'_>, status: Status) {
        with_driver_io!(io, driver_io, self.0.close_all(now, core, driver_io, status));
    }
}
