use super::*;

#[test]
fn names_are_those_linux_takes() {
    for good in ["eth0", "ib0", "eth0.100", "br-lan", "enp0s31f6", "wg_long_name_15", "eth0:1"] {
        assert!(is_name(good), "{good}");
    }
    for bad in ["", "eth 0", "a/b", "10.0.0.300", "7", "..", "sixteen_letters_", "\u{e9}"] {
        assert!(!is_name(bad), "{bad}");
    }
    // Neither addresses nor parts of aliases.
    for bad in ["eth0:", ":1", "fd77::1", "::1", "a:b:c", "enp0s31f6:longer"] {
        assert!(!is_name(bad), "{bad}");
    }
}

#[test]
fn hosts_exclude_what_no_interface_has() {
    for good in ["10.0.0.1", "127.0.0.1", "fd77::1"] {
        assert!(is_host(good.parse().unwrap()), "{good}");
    }
    for bad in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"] {
        assert!(!is_host(bad.parse().unwrap()), "{bad}");
    }
}

#[test]
fn ports_are_plain_decimal() {
    assert_eq!(port("988"), Some(988));
    assert_eq!(port("65535"), Some(65_535));
    for bad in ["", "0", "+1", "65536", "0x10", " 1"] {
        assert_eq!(port(bad), None, "{bad}");
    }
}

#[test]
fn partition_lists_follow_lnet_core_11_1() {
    for good in ["[0]", "[0,1]", "[0-3]", "[0,2-8/2]"] {
        assert!(is_cpt_list(good), "{good}");
    }
    for bad in ["0", "[]", "[a]", "[3-1]", "[0,]", "[0-4/0]", "[4/2]", "[0", "[99999999999]"] {
        assert!(!is_cpt_list(bad), "{bad}");
    }
    let list = |count: usize| format!("[{}]", vec!["255"; count].join(","));
    assert!(is_cpt_list(&list(255)) && !is_cpt_list(&list(257)));
}
