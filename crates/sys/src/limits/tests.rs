use super::*;

#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Lowers the limit so that it can be raised; only slightly, because other tests need
    // descriptors.
    let lower = maximum.map(|maximum| maximum - 1);
    setrlimit(Resource::Nofile, Rlimit { current: lower, maximum }).unwrap();
    assert_eq!(raise_descriptor_limit().unwrap(), maximum.unwrap_or(u64::MAX));
    assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    assert_eq!(raise_descriptor_limit().unwrap(), maximum.unwrap_or(u64::MAX), "twice is fine");
}
