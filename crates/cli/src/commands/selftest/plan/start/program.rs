//! The program that is brought to the hosts.

use std::path::Path;

use crate::output::Failure;

/// How files of 64-bit programs begin. The next byte is 1 or 2: their byte order.
const ELF64: &[u8] = b"\x7fELF\x02";

/// The byte order with the largest digit first.
const BIG_ENDIAN: u8 = 2;

/// ELF's numbers of machines with their byte orders, and what `uname -m` calls them.
const MACHINES: [(u16, u8, &[&str]); 7] = [
    (62, 1, &["x86_64", "amd64"]),
    (183, 1, &["aarch64", "arm64"]),
    (21, 1, &["ppc64le"]),
    (21, BIG_ENDIAN, &["ppc64"]),
    (22, BIG_ENDIAN, &["s390x"]),
    (243, 1, &["riscv64"]),
    (258, 1, &["loongarch64"]),
];

/// Largest file that is sent: 1 GiB.
const BYTES_MAX: u64 = 1 << 30;

/// A program's file.
pub(super) struct Program {
    /// Its contents.
    pub(super) bytes: Vec<u8>,
    /// Their checksum as cksum(1) computes it.
    pub(super) cksum: u32,
    /// Its path, for messages.
    path: String,
}

impl Program {
    /// Reads a file; without a path, that of the running program.
    ///
    /// # Errors
    /// When it cannot be read, or is no program of Linux.
    pub(super) fn read(path: Option<&str>) -> Result<Program, Failure> {
        let own = std::env::current_exe().unwrap_or_default();
        let named = path.is_some();
        let shown = path.map_or_else(|| own.display().to_string(), str::to_owned);
        // The file of the running program may have been replaced or removed.
        let path = path.unwrap_or("/proc/self/exe");
        let cannot = |why: String| {
            let said = format!("cannot send the program {shown}: {why}");
            if named { Failure::Input(said) } else { Failure::Failed(said) }
        };
        let about = Path::new(path).metadata().map_err(|error| cannot(error.to_string()))?;
        if !about.is_file() || about.len() > BYTES_MAX {
            return Err(cannot("it is not a file of at most 1 GiB".to_owned()));
        }
        let bytes = std::fs::read(path).map_err(|error| cannot(error.to_string()))?;
        if !bytes.starts_with(ELF64) {
            return Err(cannot("it is not a program of a 64-bit Linux".to_owned()));
        }
        Ok(Program { cksum: cksum(&bytes), bytes, path: shown })
    }

    /// A line for the user if it will not run on every Linux.
    pub(super) fn remark(&self) -> Option<String> {
        self.is_dynamic().then(|| {
            format!(
                "the program {} is not static: it runs only on hosts with the libraries of this \
                 one; `cargo xtask package` makes a static one, which --program FILE names",
                self.path
            )
        })
    }

    /// Whether a machine can run it, by the machine's own name; unknown machines can.
    ///
    /// # Errors
    /// The name of the machine that the program is for.
    pub(super) fn runs_on(&self, machine: &str) -> Result<(), &'static str> {
        let number = self.number(18, 2) as u16;
        let order = self.byte_order();
        let of =
            |(known, known_order, _): &&(u16, u8, _)| (*known, *known_order) == (number, order);
        match MACHINES.iter().find(of).map(|(_, _, names)| *names) {
            Some(names) if !names.contains(&machine) => Err(names[0]),
            _ => Ok(()),
        }
    }

    /// Whether it names an interpreter, which loads its libraries.
    fn is_dynamic(&self) -> bool {
        const INTERPRETER: u64 = 3;
        let (table, size, count) = (self.number(32, 8), self.number(54, 2), self.number(56, 2));
        let kind = |index: u64| {
            let at = index.checked_mul(size).and_then(|offset| offset.checked_add(table));
            at.and_then(|at| usize::try_from(at).ok()).map(|at| self.number(at, 4))
        };
        (0..count).any(|index| kind(index) == Some(INTERPRETER))
    }

    fn byte_order(&self) -> u8 {
        self.bytes.get(ELF64.len()).copied().unwrap_or_default()
    }

    /// A number of the file; 0 beyond its end.
    fn number(&self, at: usize, len: usize) -> u64 {
        let end = at.saturating_add(len);
        let bytes = self.bytes.get(at..end).unwrap_or_default();
        let with = |number, byte: &u8| number << 8 | u64::from(*byte);
        match self.byte_order() {
            BIG_ENDIAN => bytes.iter().fold(0, with),
            _ => bytes.iter().rev().fold(0, with),
        }
    }
}

/// The checksum of cksum(1), as POSIX defines it: a CRC of the bytes and then of their number.
fn cksum(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x04c1_1db7;
    let step = |crc: u32| if crc >> 31 == 1 { crc << 1 ^ POLYNOMIAL } else { crc << 1 };
    let table: Vec<u32> =
        (0..256_u32).map(|byte| (0..8).fold(byte << 24, |crc, _| step(crc))).collect();
    let with = |crc: u32, byte: u8| crc << 8 ^ table[usize::from((crc >> 24) as u8 ^ byte)];
    let crc = bytes.iter().fold(0, |crc, byte| with(crc, *byte));
    let mut length = bytes.len();
    let mut crc = crc;
    while length > 0 {
        crc = with(crc, length as u8);
        length >>= 8;
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(bytes: &[u8]) -> Program {
        Program { bytes: bytes.to_vec(), cksum: 0, path: "p".to_owned() }
    }

    /// As `printf TEXT | cksum` prints them.
    #[test]
    fn the_checksum_is_that_of_cksum() {
        assert_eq!(cksum(b""), 4_294_967_295);
        assert_eq!(cksum(b"123456789"), 930_766_865);
    }

    #[test]
    fn the_machine_and_the_interpreter_are_read() {
        let own = Program::read(None).expect("a test is a program");
        assert_eq!(own.runs_on(std::env::consts::ARCH), Ok(()));
        assert!(own.runs_on("vax").is_err());
        let mut header = vec![0; 64 + 56];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[18] = 183;
        header[32] = 64;
        header[54] = 56;
        header[56] = 1;
        assert_eq!(program(&header).runs_on("x86_64"), Err("aarch64"));
        assert_eq!(program(&header).remark(), None);
        header[64] = 3;
        assert!(program(&header).remark().is_some());
        // What a file does not have is read as zeros, also if its header says that it is there.
        header[32..40].fill(0xff);
        assert_eq!(program(&header).remark(), None);
        assert_eq!(program(b"").runs_on("x86_64"), Ok(()));
    }

    #[test]
    fn the_byte_order_is_read() {
        let header = |order: u8, number: u16| {
            let mut header = vec![0; 64 + 56];
            header[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, order]);
            let big = order == BIG_ENDIAN;
            header[18..20].copy_from_slice(&match big {
                true => number.to_be_bytes(),
                false => number.to_le_bytes(),
            });
            program(&header)
        };
        assert_eq!(header(2, 22).runs_on("s390x"), Ok(()));
        assert_eq!(header(2, 22).runs_on("x86_64"), Err("s390x"));
        assert_eq!(header(1, 21).runs_on("ppc64le"), Ok(()));
        assert_eq!(header(1, 21).runs_on("ppc64"), Err("ppc64le"));
        assert_eq!(header(2, 21).runs_on("ppc64le"), Err("ppc64"));
    }

    #[test]
    fn other_files_are_refused() {
        for path in ["/dev/null", "/no/such/file", "/etc/passwd"] {
            assert!(matches!(Program::read(Some(path)), Err(Failure::Input(_))), "{path}");
        }
    }
}
