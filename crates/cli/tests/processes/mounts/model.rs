//! Two mounts of one file, against a model of it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};

use super::{Lustre, Mounted, can_mount, names};

/// Random numbers that are the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// One file, which either of two mounts changes, and what it must contain.
struct Shared {
    mounts: [Mounted; 2],
    name: String,
    renames: u32,
    model: Vec<u8>,
}

impl Shared {
    /// Longer than a stripe's transfer of 4 MiB.
    const LEN_MAX: u64 = 6_000_000;

    /// Changes or reads a part of the file by one of the mounts, and says what it did.
    fn step(&mut self, random: &mut Random) -> String {
        let side = random.below(2) as usize;
        let path = self.mounts[side].path(&self.name);
        let len = self.model.len() as u64;
        let fill = random.below(255) as u8 + 1;
        let open = || OpenOptions::new().read(true).write(true).open(&path).expect("it is there");
        match random.below(12) {
            0..4 => {
                // Beyond the end as well: the hole is of zeros.
                let at = random.below((len + 100_000).min(Self::LEN_MAX));
                let most = [100, 5_000, 300_000][random.below(3) as usize];
                let count = 1 + random.below(most);
                let mut file = open();
                file.seek(SeekFrom::Start(at)).unwrap();
                file.write_all(&vec![fill; count as usize]).unwrap();
                let end = (at + count) as usize;
                self.model.resize(self.model.len().max(end), 0);
                self.model[at as usize..end].fill(fill);
                format!("{side} writes {count} of {fill} at {at}")
            }
            4 if len < Self::LEN_MAX => {
                let count = 1 + random.below(9_000);
                let mut file = OpenOptions::new().append(true).open(&path).unwrap();
                file.write_all(&vec![fill; count as usize]).unwrap();
                self.model.extend(vec![fill; count as usize]);
                format!("{side} appends {count} of {fill}")
            }
            5 | 6 => {
                let to = random.below((len * 3 / 2 + 2).min(Self::LEN_MAX));
                open().set_len(to).unwrap();
                self.model.resize(to as usize, 0);
                format!("{side} truncates to {to}")
            }
            7 => {
                self.renames += 1;
                self.name = format!("renamed-{}", self.renames);
                fs::rename(&path, self.mounts[side].path(&self.name)).unwrap();
                format!("{side} renames it to {}", self.name)
            }
            8 => {
                open().sync_all().unwrap();
                format!("{side} syncs")
            }
            _ => {
                let at = random.below(len + 1);
                let mut file = open();
                file.seek(SeekFrom::Start(at)).unwrap();
                let mut seen = Vec::new();
                file.take(random.below(400_000)).read_to_end(&mut seen).unwrap();
                let expected = &self.model[at as usize..][..seen.len()];
                assert!(seen == expected, "{side} reads other bytes at {at}");
                format!("{side} reads {} at {at}", seen.len())
            }
        }
    }

    fn check(&self) {
        for (side, mount) in self.mounts.iter().enumerate() {
            let path = mount.path(&self.name);
            let seen = fs::metadata(&path).expect("it is there").len();
            assert_eq!(seen, self.model.len() as u64, "the size that {side} sees");
            let seen = fs::read(&path).expect("it is read");
            let differs = seen.iter().zip(&self.model).position(|(one, other)| one != other);
            assert_eq!((seen.len(), differs), (self.model.len(), None), "what {side} reads");
            assert_eq!(names(&mount.dir), [self.name.as_str()]);
        }
    }
}

#[test]
fn a_file_that_two_mounts_change_at_random_is_as_in_a_model() {
    if !can_mount() {
        return;
    }
    const STEPS: usize = 100;
    for (seed, options) in
        [(1, "rw"), (2, "cache=none"), (3, "cache=32M,names=none"), (4, "entry_timeout=1")]
    {
        let lustre = Lustre::for_mounts();
        let mounts = ["one", "other"].map(|name| lustre.mount_with(name, options));
        File::create(mounts[0].path("file")).unwrap();
        let mut random = Random(seed);
        // The first numbers of small seeds are small.
        for _ in 0..20 {
            random.below(2);
        }
        let name = "file".to_owned();
        let mut shared = Shared { mounts, name, renames: 0, model: Vec::new() };
        let mut steps = Vec::new();
        for step in 0..STEPS {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let done = shared.step(&mut random);
                if step % 25 == 24 {
                    shared.check();
                }
                done
            }));
            match done {
                Ok(done) => steps.push(done),
                Err(panic) => {
                    eprintln!("seed {seed}, {options}, after:\n{}", steps.join("\n"));
                    std::panic::resume_unwind(panic);
                }
            }
        }
        shared.mounts.iter().for_each(|mount| drop(mount.umount().ok()));
    }
}
