use super::*;

fn read(line: &str) -> Result<(Test, u32), String> {
    let mut words = line.split(' ').map(str::to_owned);
    let kind = words.next().unwrap();
    test(&kind, &words.collect::<Vec<_>>())
}

#[test]
fn parameters_describe_tests() {
    use BrwCheck::{Discard, Full, None as Unchecked, Simple};
    let get = |len, check| (Test::Read { len, check }, 0);
    let put = |len, check| (Test::Write { len, check }, 0);
    let cases = [
        ("ping", (Test::Ping, 0)),
        ("PING", (Test::Ping, 0)),
        ("brw", get(4096, Unchecked)),
        ("brw r", get(4096, Unchecked)),
        ("brw w", put(4096, Unchecked)),
        ("brw WRITE Check=Full SIZE=4K", put(4096, Full)),
        ("brw read check=simple size=1M", get(1 << 20, Simple)),
        ("brw read c=simple s=1m", get(1 << 20, Simple)),
        ("brw size=8 write", put(8, Unchecked)),
        ("brw size=100k size=64k", get(65_536, Unchecked)),
        ("brw check=discard", get(4096, Discard)),
        ("brw skip_rx_copy write", put(4096, Discard)),
        ("brw off=16", (Test::Read { len: 4096, check: Unchecked }, 16)),
        // The console checks that it is a multiple of 8.
        ("brw size=13", get(13, Unchecked)),
        ("brw size=0", get(0, Unchecked)),
    ];
    for (line, wanted) in cases {
        assert_eq!(read(line), Ok(wanted), "{line:?}");
    }
}

#[test]
fn other_parameters_are_refused() {
    let cases = [
        ("ping 1", "Unknow parameter: 1"),
        ("brw bogus", "Unknow parameter: bogus"),
        ("brw read=1", "Unknow parameter: read=1"),
        ("brw check=none", "Unknow parameter: check=none"),
        ("brw size=3M", "Size exceed limitation: 3145728 bytes"),
        ("brw size=4294967295m", "Size exceed limitation: 4503599626321920 bytes"),
        ("brw size=4294967296", "Invalid size: 4294967296"),
        ("brw size=", "Invalid size: "),
        ("brw size=k", "Invalid size: k"),
        ("brw size=-8", "Invalid size: -8"),
        ("brw size=+8", "Invalid size: +8"),
        ("brw size=8g", "Invalid size: 8g"),
        ("brw off=4", "Invalid offset: 4 (a multiple of 8)"),
        ("brw off=4294967295m", "Invalid offset: 4294967295m (a multiple of 8)"),
        ("brw check=full skip_rx_copy", "discard and other checks exclude each other"),
        ("srw", "Unknow test: srw (there are ping and brw)"),
    ];
    for (line, wanted) in cases {
        assert_eq!(read(line), Err(wanted.to_owned()), "{line:?}");
    }
}

#[test]
fn a_distribution_has_two_numbers() {
    assert_eq!(spread("1:1"), Some(Distribution::ONE_TO_ONE));
    assert_eq!(spread("4:16"), Some(Distribution { clients: 4, servers: 16 }));
    for text in ["", "1", "0:1", "1:0", "1:2:3", "-1:1", "a:b", "1:4294967296"] {
        assert_eq!(spread(text), None, "{text:?}");
    }
}
