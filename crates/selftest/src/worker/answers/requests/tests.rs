use lustrine_lnet::memory::VecMemory;
use lustrine_wire::nid::Net;

use super::*;

fn list_of(count: u32, len: u32, order: ByteOrder) -> Result<Vec<ProcessId>, FetchError> {
    let mut memory = VecMemory::default();
    let whole = destination_at(count as usize - 1, PAGE as usize) + Destination::LEN;
    let mut bytes = vec![0xff; whole.max(len as usize)];
    for index in 0..count {
        let at = destination_at(index as usize, PAGE as usize);
        let nid = Nid::new4(Net::TCP, 0x0a00_0000 + index).to_short().unwrap();
        let entry = Destination { nid, pid: PID_LUSTRE };
        bytes[at..at + Destination::LEN].copy_from_slice(&entry.encode(order));
    }
    let span = memory.alloc(len).unwrap();
    memory.write(span, &bytes[..len as usize]);
    read_list(&memory, span, count, order)
}

#[test]
fn lists_are_read_in_the_order_of_the_request() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for (count, len) in [(1, 12), (341, 341 * 12), (341, 4096), (700, 3 * 4096)] {
            let list = list_of(count, len, order).unwrap();
            let last = Nid::new4(Net::TCP, 0x0a00_0000 + count - 1);
            assert_eq!((list.len() as u32, list[list.len() - 1].nid), (count, last));
            assert!(list.iter().all(|process| process.pid == PID_LUSTRE));
        }
    }
}

#[test]
fn a_cut_list_keeps_what_can_be_known() {
    // [LST-6]: 4 bytes are lost per full page.
    let list = list_of(342, 342 * 12, ByteOrder::Little).unwrap();
    assert_eq!(list[341], ProcessId::lustre(Nid::new4(Net::TCP, 0x0a00_0000 + 341)));
    assert_eq!(list_of(683, 683 * 12, ByteOrder::Little), Err(FetchError::Bad));
    // Number 6: the last page is missing altogether.
    assert_eq!(list_of(1024, 1024 * 12, ByteOrder::Little), Err(FetchError::Bad));
}

#[test]
fn a_wildcard_is_no_destination() {
    let mut memory = VecMemory::default();
    let span = memory.alloc(12).unwrap();
    memory.write(span, &[0xff; 12]);
    assert_eq!(read_list(&memory, span, 1, ByteOrder::Little), Err(FetchError::Bad));
}
