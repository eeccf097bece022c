use lustrine_fswire::llog::CfgError;
use lustrine_fswire::mgs::{NidForm, TargetKind, nid_table};
use lustrine_wire::nid::Net;

use super::*;

fn nid(last: u32) -> Nid {
    Nid::new4(Net::TCP, 0x0a00_0000 + last)
}

fn target(kind: Target, index: u32) -> FsTarget {
    FsTarget { kind, index, nids: vec![nid(index + 1)] }
}

fn store() -> MgsStore {
    let targets = vec![target(Target::Mdt, 0), target(Target::Ost, 0)];
    MgsStore::new(&[Filesystem { name: "lab".to_owned(), targets }])
}

/// The commands of a log, read chunk by chunk as a client does.
fn commands(store: &MgsStore, name: &str) -> Vec<(u32, CfgCommand)> {
    let log = &store.logs[name];
    let header = log.header();
    let header = LlogHeader::parse(&header).expect("a header");
    let (mut found, mut known) = (Vec::new(), 0);
    while known < header.last_index {
        let (last, end, bytes) = log.chunk(known + 1).expect("a chunk");
        assert!(last > known && bytes.len() == CHUNK_SIZE);
        assert!(end as usize > CHUNK_SIZE);
        for record in Chunk(&bytes).records() {
            let record = record.expect("a good record");
            if record.index > known && header.is_live(record.index) {
                let config: Result<LustreCfg<'_>, CfgError> = LustreCfg::parse(record.payload);
                found.push((record.index, config.expect("a command").header.command));
            }
        }
        known = last;
    }
    assert!(log.chunk(known + 1).is_none());
    assert_eq!(header.fields.count as usize, found.len() + 1);
    found
}

#[test]
fn what_is_appended_stands_behind_what_was_there() {
    let mut store = store();
    assert!(commands(&store, "params").is_empty());
    let before = commands(&store, "lab-client");
    for number in 0..2000 {
        let parameter = format!("osc.active={}", number % 2);
        let device = "lab-OST0000-osc".to_owned();
        let lock = store.change("lab", &ConfigChange::ConfParam { device, parameter });
        let expected = config_lock("lab", ConfigKind::CONFIG, LockMode::EX);
        assert_eq!(lock, Some(expected));
    }
    let after = commands(&store, "lab-client");
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 3 * 2000);
    let change = ConfigChange::SetParam("osc.*.max_rpcs_in_flight=7".to_owned());
    let lock = store.change("lab", &change).expect("a lock");
    assert_eq!(lock.resource, Resource::of_config(b"params", 3));
    let commands = commands(&store, "params");
    let kinds: Vec<CfgCommand> = commands.into_iter().map(|(_, command)| command).collect();
    assert_eq!(kinds, [CfgCommand::MARKER, CfgCommand::SET_PARAM, CfgCommand::MARKER]);
    assert_eq!(store.change("other", &change), None);
}

fn asked(from: u64, units: u32) -> ConfigBody {
    ConfigBody {
        name: FixedText::new(b"lab-cliir").unwrap_or_default(),
        offset: from,
        kind: ConfigKind::RECOVER,
        nid_size: 20,
        bits: 12,
        units,
    }
}

#[test]
fn a_table_says_where_targets_were_last_started() {
    let mut store = store();
    let empty = store.table(&asked(1, 1)).expect("a table");
    assert_eq!(empty, (Vec::new(), ConfigRes { offset: 2, size: 2 }));
    for (index, instance) in [(0, 1), (1, 1), (0, 2)] {
        let lock = store.started("lab", &target(Target::Ost, index), instance).expect("a lock");
        assert_eq!(lock.resource, Resource::of_config(b"lab", 2));
    }
    let (bytes, res) = store.table(&asked(1, 1)).expect("a table");
    assert_eq!(res, ConfigRes { offset: 5, size: 5 });
    let entries: Vec<_> = nid_table(&bytes)
        .map(|entry| {
            let entry = entry.expect("a good entry");
            let header = entry.header;
            assert_eq!((header.kind, header.form), (TargetKind::OST, NidForm::LONG));
            assert_eq!(entry.nids().collect::<Vec<_>>(), [nid(header.index + 1)]);
            (header.version, header.index, header.instance)
        })
        .collect();
    assert_eq!(entries, [(4, 1, 1), (5, 0, 2)]);
    let (bytes, _) = store.table(&asked(5, 1)).expect("a table");
    assert_eq!(nid_table(&bytes).count(), 1);
    assert_eq!(store.table(&asked(6, 1)).expect("a table").0, Vec::<u8>::new());
    let short = ConfigBody { nid_size: 0, ..asked(5, 1) };
    let (bytes, _) = store.table(&short).expect("a table");
    assert_eq!(bytes.len(), 32);
}

#[test]
fn a_table_is_read_in_parts_and_no_entry_crosses_a_unit() {
    let mut store = store();
    for index in 0..500 {
        store.started("lab", &target(Target::Ost, index), 1);
    }
    for units in [1, 2, 4] {
        let (mut from, mut seen) = (1, Vec::new());
        loop {
            let (bytes, res) = store.table(&asked(from, units)).expect("a table");
            assert!(bytes.len() <= 4096 * units as usize);
            let mut at = 0;
            for entry in nid_table(&bytes) {
                let entry = entry.expect("a good entry");
                let len = entry.header.len as usize;
                assert_eq!(at / 4096, (at + len - 1) / 4096, "an entry crosses a unit");
                at += len;
                seen.push(entry.header.index);
            }
            if res.offset == res.size {
                break;
            }
            assert!(res.offset >= from && !bytes.is_empty());
            from = res.offset + 1;
        }
        assert_eq!(seen, (0..500).collect::<Vec<_>>());
    }
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let store = store();
    let named =
        |name: &[u8]| ConfigBody { name: FixedText::new(name).unwrap_or_default(), ..asked(1, 1) };
    assert_eq!(store.table(&named(b"other-cliir")), Err(errno::ENOENT));
    assert_eq!(store.table(&named(b"lab")), Err(errno::EINVAL));
    assert_eq!(store.table(&asked(1, 0)), Err(errno::EINVAL));
    assert_eq!(store.table(&asked(1, 1 << 20)), Err(errno::EINVAL));
    let kind = ConfigBody { kind: ConfigKind::CONFIG, ..asked(1, 1) };
    assert_eq!(store.table(&kind), Err(errno::EOPNOTSUPP));
}
