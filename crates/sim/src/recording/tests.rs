use lustrine_lnet::status::Status;

use super::*;
use lustrine_lnet::journal::{JournalId, Step};

fn entry(at: u64) -> Entry {
    Entry { at: Time(at), step: Step::Completed { msg: JournalId(at), status: Status::Ok } }
}

#[test]
fn the_oldest_entries_are_dropped_and_the_rest_are_ordered_by_time() {
    let mut recorder = Recorder::new(Time(1), RecordFilter::newest(3));
    let source = RecordSource { nid: Nid::LO, cpt: 0, boot: 0 };
    recorder.sources.push(source);
    for at in [5, 4, 9, 7] {
        recorder.keep(SourceId(0), entry(at));
    }
    let recording = recorder.finish();
    assert_eq!((recording.begin, recording.dropped), (Time(1), 1));
    let expected: Vec<_> = [4, 7, 9].map(|at| (source, entry(at))).into();
    assert_eq!(recording.entries, expected);
}

#[test]
fn entries_outside_of_the_requested_time_are_left_out() {
    let wanted = RecordFilter { limit: 2, from: Nanos(10), until: Nanos(20) };
    let mut recorder = Recorder::new(Time(100), wanted);
    recorder.sources.push(RecordSource { nid: Nid::LO, cpt: 0, boot: 0 });
    for at in [105, 110, 120, 121] {
        recorder.keep(SourceId(0), entry(at));
    }
    let recording = recorder.finish();
    let times: Vec<u64> = recording.entries.iter().map(|(_, entry)| entry.at.0).collect();
    assert_eq!((times, recording.dropped, recording.outside), (vec![110, 120], 0, 2));
}
