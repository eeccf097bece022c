use std::path::Path;

use super::*;

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures").join(name)
}

fn args(file: PathBuf) -> PcapArgs {
    PcapArgs { file, json: false, stream: None, fields: false, raw: false }
}

fn output(args: &PcapArgs) -> (Vec<String>, Result<(), Failure>) {
    let out = SharedOut::new(Vec::new());
    let result = print_file(args, out.clone());
    let text = String::from_utf8(out.with(std::mem::take)).unwrap();
    (text.lines().map(str::to_owned).collect(), result)
}

fn lines(name: &str) -> Vec<String> {
    let (lines, result) = output(&args(capture(name)));
    result.unwrap();
    lines
}

/// A file under the system's directory for temporary files, removed when dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Temporary {
        let name = format!("lustrine-pcap-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_ping_is_printed_line_by_line() {
    let lines = lines("lnet/f1_csum_ping.pcap");
    assert_eq!(
        lines[..5],
        [
            "    0.000000   1 -> OPEN 10.77.0.2:1023 > 10.77.0.3:988 start=handshake",
            "    0.016714   1 -> REQUEST version=1 target=10.77.0.3@tcp",
            "    0.029479   1 -> HELLO 12345-10.77.0.2@tcp > 0-10.77.0.3@tcp version=3 \
             type=control src_incarnation=0x18ea27dbe8b81f64",
            "    0.035638   1 <- HELLO 12345-10.77.0.3@tcp > 0-10.77.0.2@tcp version=3 \
             type=control src_incarnation=0x18ea27de4df2c44a",
            "    0.042376   1 -> GET 12345-10.77.0.2@tcp > 12345-10.77.0.3@tcp portal=0 \
             match_bits=0x8000000000000000 offset=0 sink_len=3960 \
             return_md=18ea27db3694db70.1c0d",
        ]
    );
}

#[test]
fn payloads_are_printed() {
    let lines = lines("lnet/c00_session_console_vm4_ping.pcap");
    let find = |what: &str| {
        let line = lines.iter().find(|line| line.contains(what)).unwrap();
        line.split_once(" | ").unwrap().1.to_owned()
    };
    assert_eq!(
        find("| PING_INFO "),
        "PING_INFO features=[NI_STATUS RTE_DISABLED MULTI_RAIL] pid=12345 sequence=2 \
         nids=[10.77.0.2@tcp:up]"
    );
    assert_eq!(
        find("| MAKE_SESSION "),
        "MAKE_SESSION reply_bits=0xee7d000000000001 sid=1569562@10.77.0.4@tcp force=0 \
         name=labsess features=0x1"
    );
    assert_eq!(
        find("role=client"),
        "TEST reply_bits=0xee7d000000000004 bulk_bits=0xee7d000000000005 \
         sid=1569562@10.77.0.4@tcp batch=2 service=ping role=client loops=3 concurrency=1 \
         stop_on_error=1 destinations=1 features=0x1"
    );
    assert_eq!(find("| DESTINATIONS"), "DESTINATIONS list=[12345-10.77.0.3@tcp]");
    assert_eq!(
        find("| BATCH "),
        "BATCH reply_bits=0xee7d000000000006 sid=1569562@10.77.0.4@tcp batch=2 op=run test=0 \
         arg=0 features=0x1"
    );
    assert_eq!(
        find("| MAKE_SESSION reply "),
        "MAKE_SESSION reply status=0 sid=1569562@10.77.0.4@tcp timeout=100 name=\"\" features=0x1"
    );
}

#[test]
fn events_are_printed_as_json_lines() {
    let mut args = args(capture("lnet/f21_proto_v2_csum.pcap"));
    args.json = true;
    args.raw = true;
    let (lines, result) = output(&args);
    result.unwrap();
    let objects: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let get = objects.iter().find(|object| object["kind"] == "GET").unwrap();
    let raw = "c1000000518baf560000000000000000000000000000000003004d0a0000020002004d0a00000200\
               39300000393000000200000000000000a9db49e68e28ea180d1c0000000000000000000000000080\
               0000000000000000780f000000000000";
    let expected = serde_json::json!({
        "time_ns": 1_795_292_016_713_977_000_u64, "time": "0.022750",
        "stream": 1, "direction": "from_opener", "stream_offset": 72, "raw_len": 96,
        "kind": "GET", "from": "12345-10.77.0.2@tcp", "to": "12345-10.77.0.3@tcp",
        "portal": 0, "match_bits": "0x8000000000000000", "offset": 0, "sink_len": 3960,
        "return_md": "18ea288ee649dba9.1c0d",
        "csum": "good", "csum_sent": "0x56af8b51", "version": 2, "raw": raw,
    });
    assert_eq!(*get, expected);
    let reply = objects.iter().find(|object| object["kind"] == "REPLY").unwrap();
    assert_eq!(reply["content"]["kind"], "PING_INFO");
    assert_eq!(reply["content"]["nids"], serde_json::json!(["10.77.0.3@tcp:up"]));
}

#[test]
fn requests_and_replies_of_the_file_system_are_printed() {
    let found: Vec<_> = lines("fs/s02_mkdir.pcap")
        .into_iter()
        .filter_map(|line| Some(line.split_once(" | ")?.1.to_owned()))
        .collect();
    assert_eq!(
        found[2..],
        [
            "SEQ_QUERY xid=0x6b01fc2700a80 op=alloc_meta",
            "SEQ_QUERY reply xid=0x6b01fc2700a80 took_us=2664 status=0 start=0x200000401 \
             end=0x200000402",
            "MDS_REINT/create xid=0x6b01fc2700b80 parent=[0x200000007:0x1:0x0] \
             fid=[0x200000401:0x1:0x0] flags=MKDIR_LMV|DEFAULT_LMV name=d1",
            "MDS_REINT/create reply xid=0x6b01fc2700b80 took_us=19250 status=0 \
             transno=0x100000001 fid1=[0x200000401:0x1:0x0]",
        ]
    );
}

#[test]
fn every_field_is_printed_if_asked() {
    let mut args = args(capture("fs/s02_mkdir.pcap"));
    args.fields = true;
    let (lines, result) = output(&args);
    result.unwrap();
    assert!(lines.contains(&"    name: d1".to_owned()), "{lines:?}");
    args.json = true;
    let (lines, result) = output(&args);
    result.unwrap();
    let record = lines.iter().find_map(|line| {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        let record = &object["content"]["fields"]["record"];
        record.is_object().then(|| record.clone())
    });
    let record = record.unwrap();
    assert_eq!((&record["mode"], &record["umask"]), (&"040777".into(), &"022".into()));
    assert_eq!(record["parent"], "[0x200000007:0x1:0x0]");
}

#[test]
fn malformed_connections_are_reported_with_the_reason() {
    let undecoded =
        |name: &str| lines(name).into_iter().find(|line| line.contains("UNDECODED")).unwrap();
    assert_eq!(
        undecoded("rogue/r_badksm.pcap"),
        "    0.010897   1 -> UNDECODED len=96 reason=\"frame of unknown type 0xc5\""
    );
}

#[test]
fn one_stream_is_selected_and_dumped() {
    let mut args = args(capture("lnet/f1_csum_ping.pcap"));
    args.stream = Some(2);
    args.raw = true;
    let (lines, result) = output(&args);
    result.unwrap();
    assert_eq!(
        lines[..3],
        [
            "    0.044795   2 -> OPEN 10.77.0.2:1022 > 10.77.0.3:988 start=handshake",
            "    0.046443   2 -> REQUEST version=1 target=10.77.0.3@tcp",
            "    000000  00 71 ce ac 01 00 00 00 03 00 4d 0a 00 00 02 00  .q........M.....",
        ]
    );
}

#[test]
fn a_reader_that_closes_the_output_is_not_an_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let out = SharedOut::new(Closed);
    let result = print_file(&args(capture("lnet/f1_csum_ping.pcap")), out);
    let Err(Failure::Output(error)) = result else { panic!("{result:?}") };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

/// Bytes come one by one, as a pipe may bring them.
#[test]
fn the_format_is_recognised_however_the_bytes_come() {
    struct Slow(Vec<u8>, usize);
    impl std::io::Read for Slow {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let one = self.0.get(self.1..=self.1).unwrap_or_default();
            bytes[..one.len()].copy_from_slice(one);
            self.1 += one.len();
            Ok(one.len())
        }
    }
    let bytes = std::fs::read(capture("lnet/f1_csum_ping.pcap")).unwrap();
    let mut frames = Frames::open(Slow(bytes, 0)).unwrap();
    let mut count = 0;
    while frames.next_frame().unwrap().is_some() {
        count += 1;
    }
    assert!(count > 10, "{count} frames");
    // A section header with a comment of 4 bytes, and nothing else.
    let mut section = Vec::new();
    section.extend([0x0a, 0x0d, 0x0d, 0x0a, 40, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
    section.extend([0xff; 8]);
    section.extend([1, 0, 4, 0, b'n', b'o', b't', b'e', 0, 0, 0, 0, 40, 0, 0, 0]);
    let mut frames = Frames::open(Slow(section, 0)).unwrap();
    assert!(frames.next_frame().unwrap().is_none());
}

#[test]
fn a_file_that_ends_within_a_frame_keeps_what_was_read() {
    let whole = std::fs::read(capture("lnet/f1_csum_ping.pcap")).unwrap();
    let file = Temporary::new("cut.pcap", &whole[..whole.len() - 10]);
    let (lines, result) = output(&args(file.0.clone()));
    assert!(lines.len() > 5);
    let Err(Failure::Input(error)) = result else { panic!("{result:?}") };
    assert!(error.to_string().ends_with(": the file ends within a frame"), "{error}");
    assert!(error.to_string().starts_with("at byte "), "{error}");
}

#[test]
fn files_that_are_not_captures_are_refused() {
    let error = |bytes: &[u8]| {
        let name = format!("none-{}.pcap", bytes.len());
        let file = Temporary::new(&name, bytes);
        match output(&args(file.0.clone())).1 {
            Err(Failure::Input(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(error(b""), "at byte 0: the file is empty");
    assert!(error(&[0x1f; 100]).starts_with("neither a libpcap nor a pcapng file"));
    let mut usb = std::fs::read(capture("lnet/e5_ipv6_lst.pcap")).unwrap();
    usb[20] = 189;
    assert!(error(&usb).starts_with("frames of link type 189 cannot be read"));
}

/// The same frames in the other format, with nanoseconds and two interfaces.
#[test]
fn a_pcapng_file_prints_the_same() {
    let classic = std::fs::read(capture("lnet/f1_csum_ping.pcap")).unwrap();
    let file = Temporary::new("ng.pcapng", &to_pcapng(&classic));
    let (found, result) = output(&args(file.0.clone()));
    result.unwrap();
    assert_eq!(found, lines("lnet/f1_csum_ping.pcap"));
}

fn to_pcapng(classic: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let len = (body.len().next_multiple_of(4) + 12) as u32;
        out.extend(kind.to_le_bytes());
        out.extend(len.to_le_bytes());
        out.extend(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(len.to_le_bytes());
    };
    block(0x0a0d_0d0a, &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat());
    // Bluetooth, which is not supported, and Ethernet with a resolution of nanoseconds.
    block(1, &[201, 0, 0, 0, 0, 0, 4, 0]);
    block(1, &[1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    let mut rest = &classic[24..];
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let ns = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * 1000;
        let len = word(8) as usize;
        let mut body = 1u32.to_le_bytes().to_vec();
        body.extend(((ns >> 32) as u32).to_le_bytes());
        body.extend((ns as u32).to_le_bytes());
        body.extend(word(8).to_le_bytes());
        body.extend(word(12).to_le_bytes());
        body.extend(&rest[16..16 + len]);
        block(6, &body);
        body[..4].fill(0);
        block(6, &body);
        rest = &rest[16 + len..];
    }
    out
}

#[test]
fn an_unknown_connection_is_an_error() {
    let mut args = args(capture("lnet/a3_discover_cold.pcap"));
    args.stream = Some(99);
    let (lines, result) = output(&args);
    assert_eq!(lines, Vec::<String>::new());
    assert!(matches!(result, Err(Failure::Stream { wanted: 99, streams: 3 })), "{result:?}");
    let said = run(&args).unwrap_err();
    assert!(matches!(said, output::Failure::Failed(text) if text.contains("from 1 to 3")));
}

#[test]
fn a_directory_is_not_a_capture() {
    let (_, result) = output(&args(capture("lnet")));
    assert!(matches!(result, Err(Failure::Input(FileError::Directory))), "{result:?}");
}
