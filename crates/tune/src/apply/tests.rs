use proptest::prelude::*;

use super::*;

/// Settings in memory. After `left` calls the program is dead: nothing has an effect any more.
#[derive(Debug)]
struct Model {
    values: Vec<String>,
    disk: Record,
    left: usize,
    /// The next change that is refused, and whether it has an effect all the same.
    refuse: Option<bool>,
    gone: bool,
    /// The second at which the node was started.
    start: i64,
}

const PLACES: usize = 4;

fn location(index: usize) -> SettingLocation {
    let (netns, boot) = (7, "b".to_owned());
    match index {
        0 => node(1),
        1 => SettingLocation::Mount {
            dir: "/mnt".to_owned(),
            source: "a@tcp:/l".to_owned(),
            pid: 9,
            mntns: 1,
            boot: "b".to_owned(),
        },
        2 => SettingLocation::Sysctl { name: Sysctl::TcpRmem, netns, boot },
        _ => SettingLocation::Sysctl { name: Sysctl::TcpWmem, netns, boot },
    }
}

/// The setting of a node that was started at this second.
fn node(made_s: i64) -> SettingLocation {
    let start = NodeStart { inode: 5, made_s, made_ns: 0 };
    let (control, nid) = ("/run/a.sock".to_owned(), "10.0.0.1@tcp".to_owned());
    SettingLocation::Node { control, nid, start }
}

const FIRST: [&str; PLACES] = ["1", "8", "4096 131072 6291456", "4096 16384 4194304"];

impl Model {
    fn new() -> Model {
        let values = FIRST.iter().map(|value| (*value).to_owned()).collect();
        let (disk, left) = (Record::default(), usize::MAX);
        Model { values, disk, left, refuse: None, gone: false, start: 1 }
    }

    fn at(&mut self, location: &SettingLocation) -> &mut String {
        let index = match location {
            SettingLocation::Node { .. } => 0,
            _ => (1..PLACES).find(|index| self::location(*index) == *location).unwrap(),
        };
        &mut self.values[index]
    }

    fn live(&mut self) -> Result<(), String> {
        self.left = self.left.checked_sub(1).ok_or("the program is dead")?;
        Ok(())
    }
}

impl SettingsHost for Model {
    fn read(&mut self, location: &SettingLocation) -> Result<Found, String> {
        self.live()?;
        let old = matches!(location, SettingLocation::Node { .. }) && *location != node(self.start);
        match self.gone || old {
            true => Ok(Found::Gone("it has ended".to_owned())),
            false => Ok(Found::Value(self.at(location).clone())),
        }
    }

    fn set(&mut self, location: &SettingLocation, value: &str) -> Result<(), String> {
        self.live()?;
        let refuse = self.refuse.take();
        if refuse != Some(false) {
            *self.at(location) = value.to_owned();
        }
        refuse.map_or(Ok(()), |_| Err("refused".to_owned()))
    }

    fn keep(&mut self, record: &Record) -> Result<(), String> {
        self.live()?;
        record.check()?;
        self.disk = record.clone();
        Ok(())
    }
}

fn results(outcomes: &[Outcome]) -> Vec<ChangeResult> {
    outcomes.iter().map(|outcome| outcome.result).collect()
}

fn all(formula: u64) -> Vec<(SettingLocation, u64)> {
    (0..PLACES).map(|index| (location(index), formula)).collect()
}

fn applied(model: &mut Model, formula: u64) -> Vec<Outcome> {
    let mut record = model.disk.clone();
    apply(model, &mut record, &all(formula), Mode::Apply, Foreign::Leave)
}

fn undone(model: &mut Model, foreign: Foreign) -> Vec<Outcome> {
    let mut record = model.disk.clone();
    undo(model, &mut record, Mode::Apply, foreign)
}

#[test]
fn each_setting_is_raised_and_gets_its_first_value_back() {
    let mut model = Model::new();
    assert_eq!(results(&applied(&mut model, 5_000_000)), {
        use ChangeResult::{Changed, Unchanged};
        [Changed, Changed, Unchanged, Changed]
    });
    // The largest receive buffer was more already; a mount takes at most 512.
    let now = ["5000000", "512", "4096 131072 6291456", "4096 16384 5000000"];
    assert_eq!(model.values, now);
    // A second one keeps the first values, also of what it lowers.
    let second = applied(&mut model, 7_000_000);
    assert_eq!(second[1].result, ChangeResult::Unchanged);
    let mut record = model.disk.clone();
    apply(&mut model, &mut record, &[(location(1), 3)], Mode::Apply, Foreign::Leave);
    assert_eq!(model.values[1], "3");
    let outcomes = undone(&mut model, Foreign::Leave);
    assert_eq!(results(&outcomes), [ChangeResult::Restored; 4]);
    // The setting that was changed last comes first.
    assert_eq!(outcomes[3].location, location(0));
    assert_eq!(model.values, FIRST);
    assert!(model.disk.is_empty() && undone(&mut model, Foreign::Leave).is_empty());
}

#[test]
fn nothing_is_changed_when_it_is_only_shown() {
    let mut model = Model::new();
    let mut record = Record::default();
    let shown = apply(&mut model, &mut record, &all(9), Mode::DryRun, Foreign::Leave);
    use ChangeResult::{Unchanged, WouldChange, WouldRestore};
    assert_eq!(results(&shown), [WouldChange, WouldChange, Unchanged, Unchanged]);
    assert_eq!((shown[0].before.as_deref(), shown[0].value.as_deref()), (Some("1"), Some("9")));
    assert_eq!(model.values, FIRST);
    assert!(model.disk.is_empty() && record.is_empty());
    applied(&mut model, 9);
    let (mut record, values) = (model.disk.clone(), model.values.clone());
    let shown = undo(&mut model, &mut record, Mode::DryRun, Foreign::Leave);
    assert_eq!(results(&shown), [WouldRestore; 2]);
    assert_eq!((model.values, model.disk), (values, record));
}

#[test]
fn what_someone_else_has_changed_is_left_alone_unless_forced() {
    let mut model = Model::new();
    applied(&mut model, 16);
    model.values[1] = "99".to_owned();
    let outcomes = applied(&mut model, 20);
    assert_eq!((outcomes[1].result, model.values[1].as_str()), (ChangeResult::Foreign, "99"));
    let outcomes = undone(&mut model, Foreign::Leave);
    assert_eq!(results(&outcomes), [ChangeResult::Foreign, ChangeResult::Restored]);
    assert!(outcomes[0].why.as_ref().is_some_and(|why| why.contains("since this program set 16")));
    assert_eq!((model.values[0].as_str(), model.values[1].as_str()), ("1", "99"));
    assert_eq!(results(&undone(&mut model, Foreign::Overwrite)), [ChangeResult::Restored]);
    assert_eq!(model.values, FIRST);
    assert!(model.disk.is_empty());
}

#[test]
fn a_refusal_is_reported_and_what_it_has_changed_is_undone() {
    for effect in [false, true] {
        let mut model = Model::new();
        model.refuse = Some(effect);
        let outcomes = applied(&mut model, 16);
        let result = if effect { ChangeResult::Changed } else { ChangeResult::Failed };
        assert_eq!((outcomes[0].result, outcomes[0].why.as_deref()), (result, Some("refused")));
        assert_eq!(outcomes[1].result, ChangeResult::Changed);
        undone(&mut model, Foreign::Leave);
        assert_eq!(model.values, FIRST, "{effect}");
    }
}

#[test]
fn a_mount_that_finds_its_value_by_itself_is_left_alone() {
    let mut model = Model::new();
    model.values[1] = AUTO.to_owned();
    let outcomes = applied(&mut model, 16);
    assert_eq!((outcomes[1].result, model.values[1].as_str()), (ChangeResult::Unchanged, AUTO));
    assert!(outcomes[1].why.as_ref().is_some_and(|why| why.contains("by itself")));
    // A user who chooses it after --apply keeps it.
    let mut model = Model::new();
    applied(&mut model, 16);
    model.values[1] = AUTO.to_owned();
    assert_eq!(undone(&mut model, Foreign::Leave)[0].result, ChangeResult::Foreign);
    assert_eq!(model.values[1], AUTO);
    undone(&mut model, Foreign::Overwrite);
    assert_eq!(model.values, FIRST);
}

#[test]
fn without_a_record_nothing_is_changed() {
    let mut model = Model::new();
    // It dies before the record is kept.
    model.left = 1;
    assert!(results(&applied(&mut model, 16)).iter().all(|done| *done == ChangeResult::Failed));
    assert_eq!(model.values, FIRST);
}

#[test]
fn what_has_ended_needs_no_undo() {
    let mut model = Model::new();
    applied(&mut model, 16);
    model.gone = true;
    assert_eq!(results(&undone(&mut model, Foreign::Leave)), [ChangeResult::Gone; 2]);
    assert!(model.disk.is_empty());
    assert_eq!(results(&applied(&mut model, 16)), [ChangeResult::Failed; 4]);
}

#[test]
fn a_node_that_was_started_again_keeps_what_it_was_started_with() {
    let mut model = Model::new();
    applied(&mut model, 4);
    assert_eq!(model.values[0], "4");
    // It is started again, with the same value from its file.
    model.start = 2;
    let outcomes = undone(&mut model, Foreign::Leave);
    assert_eq!(outcomes.last().map(|outcome| outcome.result), Some(ChangeResult::Gone));
    assert_eq!(model.values[0], "4");
    assert!(model.disk.is_empty());
    // Another --apply in between begins with the value of the new start.
    let mut model = Model::new();
    applied(&mut model, 4);
    model.start = 2;
    let (mut record, new) = (model.disk.clone(), [(node(2), 8)]);
    let outcomes = apply(&mut model, &mut record, &new, Mode::Apply, Foreign::Leave);
    assert_eq!((results(&outcomes), model.values[0].as_str()), (vec![ChangeResult::Changed], "8"));
    let outcomes = undone(&mut model, Foreign::Leave);
    assert_eq!(
        results(&outcomes),
        [ChangeResult::Restored, ChangeResult::Restored, ChangeResult::Gone]
    );
    assert_eq!(model.values[0], "4");
    assert!(model.disk.is_empty());
}

#[test]
fn records_of_others_are_refused() {
    let wrong = |entry: Entry| Record { version: VERSION, entries: vec![entry] }.check();
    let entry = Entry { location: location(2), first: "4096 1".to_owned(), set: Vec::new() };
    assert!(wrong(entry.clone()).is_err());
    assert!(wrong(Entry { first: "1 2 3\nnet.x = 1".to_owned(), ..entry.clone() }).is_err());
    let first = "1 2 3".to_owned();
    assert!(wrong(Entry { first: first.clone(), set: vec![first.clone(); 3], ..entry }).is_err());
    assert!(Record { version: VERSION + 1, entries: Vec::new() }.check().is_err());
    assert_eq!(Record::default().check(), Ok(()));
}

#[derive(Clone, Debug)]
enum Act {
    Apply(u64, usize),
    Undo(usize),
    Refuse(bool),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let calls = prop_oneof![Just(usize::MAX), 0..30_usize];
    let act = prop_oneof![
        (1..600_u64, calls.clone()).prop_map(|(formula, left)| Act::Apply(formula, left)),
        ((4_u64 << 20)..(9 << 20), calls.clone())
            .prop_map(|(formula, left)| Act::Apply(formula, left)),
        calls.prop_map(Act::Undo),
        any::<bool>().prop_map(Act::Refuse),
    ];
    prop::collection::vec(act, 1..12)
}

fn perform(model: &mut Model, act: Act) {
    match act {
        Act::Apply(formula, left) => {
            model.left = left;
            applied(model, formula);
        }
        Act::Undo(left) => {
            model.left = left;
            undone(model, Foreign::Leave);
        }
        Act::Refuse(effect) => model.refuse = Some(effect),
    }
    model.left = usize::MAX;
}

proptest! {
    /// Whatever fails, and wherever the program dies, one undo brings all first values back.
    #[test]
    fn undo_restores_after_any_failure(acts in acts()) {
        let mut model = Model::new();
        for act in acts {
            perform(&mut model, act);
        }
        model.refuse = None;
        let outcomes = undone(&mut model, Foreign::Leave);
        prop_assert!(outcomes.iter().all(|outcome| !outcome.result.is_failure()), "{outcomes:?}");
        prop_assert_eq!(&model.values, &FIRST);
        prop_assert!(model.disk.is_empty());
    }

    /// A value that someone else has set survives everything but --force.
    #[test]
    fn foreign_values_survive(acts in acts(), which in 0..PLACES, at in 0..12_usize) {
        let mut model = Model::new();
        // No formula above gives these.
        let theirs = ["777", "600", "1 2 999999999", "1 2 999999999"][which];
        let mut is_theirs = false;
        for (index, act) in acts.into_iter().enumerate() {
            let is_kept = |entry: &Entry| entry.location == location(which);
            if index >= at && model.disk.entries.iter().any(is_kept) {
                model.values[which] = theirs.to_owned();
                is_theirs = true;
            }
            perform(&mut model, act);
            prop_assert!(!is_theirs || model.values[which] == theirs);
        }
    }
}
