//! Mount options, as `mount -o` and `/etc/fstab` have them.

use std::time::Duration;

use lustrine_client::{RpcSettings, SettingError};

use crate::atime::AtimeRule;

/// How a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether extended attributes in the name space `user` can be used.
    pub user_xattr: bool,
    /// What locks of flock(2) and fcntl(2) do.
    pub locks: Locks,
    /// Whether each write is at the servers when write(2) returns.
    pub sync: bool,
    /// Most bytes of memory for data of files that are kept; 0 for none.
    pub cache: u64,
    /// Most files of which names and attributes are kept, each with a lock; 0 for none.
    pub names: usize,
    /// How long the kernel may use a name that is kept without asking, at most a second. 0: it asks
    /// each time.
    pub entry_timeout: Duration,
    /// When a read changes the time of the last access.
    pub atime: AtimeRule,
    /// Whether other users than the one who mounts have access; by default if that is root.
    pub allow_other: Option<bool>,
    /// Whether the kernel checks permissions too, before it asks the servers.
    pub default_permissions: bool,
    /// Whether programs with a set-user-id bit get the rights of their owner.
    pub suid: bool,
    /// Whether device files lead to devices, if an option says so. See
    /// [`Options::leads_to_devices`].
    pub dev: Option<bool>,
    /// Whether programs can be executed.
    pub exec: bool,
    /// Settings of the requests at targets.
    pub settings: RpcSettings,
    /// Whether the management server notifies the client of targets that restart.
    pub imperative_recovery: bool,
}

/// What locks of flock(2) and fcntl(2) do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locks {
    /// They hold between all machines: the metadata servers keep them.
    #[default]
    Cluster,
    /// They are known to the programs of this machine.
    Local,
    /// They are refused with `ENOSYS`.
    Refused,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            read_only: false,
            user_xattr: true,
            locks: Locks::default(),
            sync: false,
            cache: Options::CACHE,
            names: Options::NAMES,
            entry_timeout: Options::ENTRY_TIMEOUT,
            atime: AtimeRule::default(),
            allow_other: None,
            default_permissions: false,
            suid: true,
            dev: None,
            exec: true,
            settings: RpcSettings::default(),
            imperative_recovery: true,
        }
    }
}

/// Why mount options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such option.
    #[error("`{0}` is not a mount option of lustrine; docs/mount.md lists them")]
    Unknown(String),
    /// It exists, and cannot be honoured.
    #[error("the mount option `{name}` cannot be honoured: {why}")]
    Refused {
        /// The option.
        name: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// Its value cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// Options that have no effect here: they are for mount(8) and its kind, or say what is so anyway.
const WITHOUT_EFFECT: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "nouser",
    "_netdev",
    "nofail",
    // Times of directories are those of the servers.
    "diratime",
    "nodiratime",
    // Those of Lustre that say what is so anyway.
    "lazystatfs",
    // Whether servers size the list of locks. Here the option `names` does.
    "lruresize",
    "nolruresize",
    "nouser_fid2path",
    "noencrypt",
    "acl",
];

/// Options that cannot be honoured, and why.
const REFUSED: &[(&str, &str)] = &[
    ("noacl", "the servers decide about access control lists"),
    ("dirsync", "servers commit changes of directories within seconds; use fsync(2) on them"),
    ("mand", "the kernel has no mandatory locks"),
    ("remount", "unmount the file system, and mount it again"),
    ("bind", "use mount --bind, which needs no file system"),
    ("user_fid2path", "requests for paths of FIDs are not implemented"),
    ("32bitapi", "inode numbers have 64 bits"),
    ("nolazystatfs", "statfs asks only the metadata server, never each object server"),
    ("encrypt", "encrypted files are not implemented"),
    ("lazytime", "times are set at the servers"),
];

impl Options {
    /// Bytes of data that are kept unless an option says otherwise.
    pub const CACHE: u64 = 256 << 20;
    /// Files of which names and attributes are kept unless an option says otherwise.
    pub const NAMES: usize = 10_000;
    /// How long the kernel uses names unless an option says otherwise.
    pub const ENTRY_TIMEOUT: Duration = Duration::from_millis(100);
    /// Most of them: each costs the metadata server a lock.
    const NAMES_MAX: usize = 1_000_000;
    /// Fewest bytes, if any: a few transfers have to fit.
    const CACHE_MIN: u64 = 32 << 20;

    /// Whether device files lead to devices. Unless an option says so, they do with
    /// [`Options::default_permissions`] only: without it the kernel does not look at the
    /// permissions of a device file.
    pub fn leads_to_devices(&self) -> bool {
        self.dev.unwrap_or(self.default_permissions)
    }

    /// Whether other users of the machine than the one who mounts have access.
    pub(crate) fn allows_others(&self) -> bool {
        self.allow_other.unwrap_or_else(|| rustix::process::geteuid().is_root())
    }

    /// Applies a list of options, separated by commas. A later one replaces an earlier one.
    ///
    /// # Errors
    /// When an option is unknown or cannot be honoured. `sloppy` ignores those that are unknown, as
    /// `mount -s` does.
    pub fn apply(&mut self, list: &str, sloppy: bool) -> Result<(), OptionError> {
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match self.apply_one(name) {
                Err(OptionError::Unknown(_)) if sloppy => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn apply_one(&mut self, name: &str) -> Result<(), OptionError> {
        if let Some((name @ ("max_rpcs_in_flight" | "max_mod_rpcs_in_flight"), value)) =
            name.split_once('=')
        {
            return Ok(self.settings.set(name, value)?);
        }
        match name {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "user_xattr" => self.user_xattr = true,
            "nouser_xattr" => self.user_xattr = false,
            "flock" => self.locks = Locks::Cluster,
            "localflock" => self.locks = Locks::Local,
            "noflock" => self.locks = Locks::Refused,
            "sync" => self.sync = true,
            "async" => self.sync = false,
            "atime" | "relatime" | "nostrictatime" => self.atime = AtimeRule::Relative,
            "strictatime" | "norelatime" => self.atime = AtimeRule::Strict,
            "noatime" => self.atime = AtimeRule::Never,
            "allow_other" => self.allow_other = Some(true),
            "noallow_other" => self.allow_other = Some(false),
            "default_permissions" => self.default_permissions = true,
            "suid" => self.suid = true,
            "nosuid" => self.suid = false,
            "dev" => self.dev = Some(true),
            "nodev" => self.dev = Some(false),
            "checksum" => self.settings.checksums = Some(true),
            "nochecksum" => self.settings.checksums = Some(false),
            "noir" => self.imperative_recovery = false,
            "exec" => self.exec = true,
            "noexec" => self.exec = false,
            // As mount(8) has it: what such a user mounts gives no rights.
            "user" | "users" => (self.suid, self.dev, self.exec) = (false, Some(false), false),
            "owner" | "group" => (self.suid, self.dev) = (false, Some(false)),
            "cache=none" => (self.cache, self.names) = (0, 0),
            _ if name.starts_with("cache=") => self.cache = cache_len(name)?,
            _ if name.starts_with("names=") => self.names = names_len(name)?,
            _ if name.starts_with("entry_timeout=") => self.entry_timeout = entry_timeout(name)?,
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ if name.starts_with("x-") || name.starts_with("X-") => {}
            _ if name.starts_with("comment=") => {}
            _ => return Err(refusal(name)),
        }
        Ok(())
    }
}

/// The value of the option `cache`.
fn cache_len(option: &str) -> Result<u64, OptionError> {
    let refused = |why| OptionError::Refused { name: option.to_owned(), why };
    let value = option.strip_prefix("cache=").unwrap_or(option);
    let (digits, unit) = match value.as_bytes().last() {
        Some(b'K' | b'k') => (&value[..value.len() - 1], 1 << 10),
        Some(b'M' | b'm') => (&value[..value.len() - 1], 1 << 20),
        Some(b'G' | b'g') => (&value[..value.len() - 1], 1 << 30),
        _ => (value, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match bytes {
        None => Err(refused("its value is `none`, or a number of bytes such as 256M or 1G")),
        Some(bytes) if bytes < Options::CACHE_MIN => {
            Err(refused("less than 32M is too little; `none` keeps nothing"))
        }
        Some(bytes) => Ok(bytes),
    }
}

/// The value of the option `names`.
fn names_len(option: &str) -> Result<usize, OptionError> {
    let value = option.strip_prefix("names=").unwrap_or(option);
    match value.parse() {
        _ if value == "none" => Ok(0),
        Ok(files @ 1..=Options::NAMES_MAX) => Ok(files),
        _ => Err(OptionError::Refused {
            name: option.to_owned(),
            why: "its value is `none`, or a number of files from 1 to 1000000",
        }),
    }
}

/// The value of the option `entry_timeout`.
fn entry_timeout(option: &str) -> Result<Duration, OptionError> {
    let value = option.strip_prefix("entry_timeout=").unwrap_or(option);
    let seconds = value.parse().ok().filter(|seconds| (0.0..=1.0).contains(seconds));
    let refused = || OptionError::Refused {
        name: option.to_owned(),
        why: "its value is a number of seconds from 0 to 1, such as 0.1",
    };
    seconds.map(Duration::from_secs_f64).ok_or_else(refused)
}

fn refusal(name: &str) -> OptionError {
    let key = name.split_once('=').map_or(name, |(key, _)| key);
    match REFUSED.iter().find(|(refused, _)| *refused == key) {
        Some((_, why)) => OptionError::Refused { name: name.to_owned(), why },
        None => OptionError::Unknown(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use lustrine_client::MaxRpcs;

    use super::*;

    fn applied(list: &str) -> Result<Options, OptionError> {
        let mut options = Options::default();
        options.apply(list, false).map(|()| options)
    }

    #[test]
    fn devices_need_a_kernel_that_checks_permissions_or_an_option() {
        let dev = |list: &str| applied(list).expect("all known").leads_to_devices();
        assert!(!dev("defaults") && !dev("default_permissions,nodev") && !dev("dev,user"));
        assert!(dev("default_permissions") && dev("dev") && dev("user,dev"));
    }

    #[test]
    fn limits_of_requests_are_taken() {
        let options = applied("max_rpcs_in_flight=32,max_mod_rpcs_in_flight=1").unwrap();
        assert_eq!(options.settings.max_rpcs_in_flight, Some(MaxRpcs::Fixed(32)));
        assert_eq!(options.settings.max_mod_rpcs_in_flight, Some(1));
        let options = applied("max_rpcs_in_flight=auto").unwrap();
        assert_eq!(options.settings.max_rpcs_in_flight, Some(MaxRpcs::Auto));
        assert!(applied("max_rpcs_in_flight=0").is_err());
        assert!(applied("max_rpcs_in_flight").is_err());
    }

    #[test]
    fn options_of_fstab_are_taken() {
        let plain = Options::default();
        assert_eq!(
            applied(
                "defaults,_netdev,noauto,x-systemd.automount,x-systemd.mount-timeout=660,nofail"
            ),
            Ok(plain.clone())
        );
        let options = applied("ro,nouser_xattr,noflock,noatime,nosuid,nodev").expect("all known");
        assert!(
            options.read_only && !options.user_xattr && !options.suid && options.dev == Some(false)
        );
        assert_eq!((options.locks, options.atime), (Locks::Refused, AtimeRule::Never));
        assert_eq!(applied("ro,rw,,noatime,relatime"), Ok(plain));
        for (list, locks) in [
            ("rw", Locks::Cluster),
            ("localflock", Locks::Local),
            ("localflock,flock", Locks::Cluster),
        ] {
            assert_eq!(applied(list).expect("all known").locks, locks, "{list}");
        }
        assert!(!applied("noir").expect("all known").imperative_recovery);
        let checksums = |list: &str| applied(list).expect("all known").settings.checksums;
        assert_eq!(checksums("rw"), None);
        assert_eq!(
            (checksums("nochecksum"), checksums("nochecksum,checksum")),
            (Some(false), Some(true))
        );
        let users = applied("users,exec").expect("all known");
        assert!(!users.suid && users.dev == Some(false) && users.exec);
    }

    #[test]
    fn what_is_kept_is_chosen() {
        let kept = |list: &str| applied(list).map(|options| (options.cache, options.names));
        assert_eq!(kept("ro"), Ok((Options::CACHE, Options::NAMES)));
        assert_eq!(kept("cache=1G,names=500"), Ok((1 << 30, 500)));
        assert_eq!(kept("cache=64m"), Ok((64 << 20, Options::default().names)));
        assert_eq!(kept("names=500,cache=none"), Ok((0, 0)));
        assert_eq!(kept("cache=none,names=500"), Ok((0, 500)));
        assert_eq!(kept("names=none"), Ok((Options::CACHE, 0)));
        for bad in
            ["names", "names=0", "names=-1", "names=1000001", "names=1K", "cache=1", "cache="]
        {
            assert!(kept(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn how_long_the_kernel_uses_names_is_chosen() {
        let timeout = |list: &str| applied(list).map(|options| options.entry_timeout);
        let millis = |number| Ok(Duration::from_millis(number));
        assert_eq!(timeout("ro"), millis(100));
        assert_eq!(
            (timeout("entry_timeout=0"), timeout("entry_timeout=1")),
            (millis(0), millis(1000))
        );
        assert_eq!(timeout("entry_timeout=0.25"), millis(250));
        for bad in ["", "-1", "1.5", "NaN", "inf", "1s"] {
            assert!(timeout(&format!("entry_timeout={bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_with_the_reason() {
        let error = |list: &str| applied(list).expect_err("refused").to_string();
        assert!(error("rw,noacl").contains("`noacl` cannot be honoured: the servers decide"));
        assert!(error("remount,ro").contains("unmount the file system"));
        assert!(error("flocks").contains("`flocks` is not a mount option"));
        assert!(error("size=5").contains("`size=5` is not"));
        // Lists do not contradict each other.
        for (name, _) in REFUSED {
            assert!(matches!(refusal(name), OptionError::Refused { .. }), "{name}");
            assert!(!WITHOUT_EFFECT.contains(name), "{name}");
        }
    }

    #[test]
    fn a_sloppy_mount_ignores_what_is_unknown_only() {
        let mut options = Options::default();
        assert_eq!(options.apply("whatever,ro", true), Ok(()));
        assert!(options.read_only);
        assert!(options.apply("noacl", true).is_err());
    }
}
