//! The file for the results. A bad path is reported before the measurement begins, and there is no
//! new file until there are results: a run that fails or is killed leaves none that could be
//! mistaken for a result.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lustrine_sys::files::{Existing, open_for_writing};

use crate::output::{Failure, print};

/// Where the results go.
#[derive(Debug)]
pub(crate) enum ReportFile {
    /// Standard output, instead of the table.
    Stdout,
    /// A file.
    File(OpenedFile),
}

/// A file that can be written.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    /// The open file, whose old contents stay until the results are written; `None` if there is no
    /// such file yet.
    file: Option<File>,
}

impl ReportFile {
    /// Opens a file for writing; `-` is standard output.
    ///
    /// # Errors
    /// When the file cannot be opened for writing.
    pub(crate) fn open(path: &Path) -> Result<ReportFile, Failure> {
        if path.as_os_str() == "-" {
            return Ok(ReportFile::Stdout);
        }
        let opened = match open_for_writing(path, Existing::Refuse) {
            // It can be made, which was the question. It is made again for the results.
            Ok(file) => fs::remove_file(path).map(|()| drop(file)).map(|()| None),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                open_for_writing(path, Existing::Keep).map(Some)
            }
            Err(error) => Err(error),
        };
        let file = opened.map_err(|error| write_error(path, &error))?;
        Ok(ReportFile::File(OpenedFile { path: path.to_owned(), file }))
    }

    /// Writes the results.
    ///
    /// # Errors
    /// When writing fails, as on a full disk; the file is then empty or removed.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        match self {
            ReportFile::Stdout => print(text),
            file @ ReportFile::File(_) => file.write_bytes(text.as_bytes()),
        }
    }

    /// Writes results that are not text; standard output gets none of them.
    ///
    /// # Errors
    /// As `write`.
    pub(crate) fn write_bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let ReportFile::File(opened) = self else { return Ok(()) };
        let path = opened.path.clone();
        opened.replace(bytes).map_err(|error| write_error(&path, &error))
    }
}

/// Refuses a set of files in which one would overwrite another or the input, under any of its
/// names. Nothing has been written yet.
///
/// # Errors
/// When two of them are the same file.
pub(crate) fn check_distinct(read: &Path, written: &[&Option<ReportFile>]) -> Result<(), Failure> {
    let mut taken = Vec::new();
    taken.extend(
        fs::metadata(read).ok().filter(fs::Metadata::is_file).map(|about| identity(&about)),
    );
    for file in written.iter().copied().flatten() {
        let ReportFile::File(opened) = file else { continue };
        let Some(identity) = opened.identity() else { continue };
        if taken.contains(&identity) {
            let path = opened.path.display();
            let words = format!(
                "{path} is given twice: the input and each output need a file of their own; \
                 nothing was written"
            );
            return Err(Failure::Usage(words));
        }
        taken.push(identity);
    }
    Ok(())
}

/// What identifies a file independently of its path.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// Device and inode.
    File(u64, u64),
    /// Device and inode of the directory, and the name, of a file that is not there yet.
    Name(u64, u64, OsString),
}

fn identity(about: &fs::Metadata) -> Identity {
    Identity::File(about.dev(), about.ino())
}

impl OpenedFile {
    /// `None` for devices such as /dev/null, which may be given several times.
    fn identity(&self) -> Option<Identity> {
        if let Some(file) = &self.file {
            return file
                .metadata()
                .ok()
                .filter(fs::Metadata::is_file)
                .map(|about| identity(&about));
        }
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let about = fs::metadata(parent.unwrap_or(Path::new("."))).ok()?;
        Some(Identity::Name(about.dev(), about.ino(), self.path.file_name()?.to_owned()))
    }

    fn replace(self, bytes: &[u8]) -> io::Result<()> {
        let (mut file, is_new) = match self.file {
            Some(file) => (file, false),
            None => match open_for_writing(&self.path, Existing::Refuse) {
                Ok(file) => (file, true),
                // Another program has made it in the meantime.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    (open_for_writing(&self.path, Existing::Keep)?, false)
                }
                Err(error) => return Err(error),
            },
        };
        // Pipes and devices have no length to set.
        let is_file = file.metadata()?.is_file();
        if is_file {
            file.set_len(0)?;
        }
        let written = file.write_all(bytes);
        match written {
            Err(_) if is_new => fs::remove_file(&self.path)?,
            Err(_) if is_file => file.set_len(0)?,
            _ => {}
        }
        written
    }
}

fn write_error(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_run_that_fails_keeps_an_existing_file() {
        let dir = TempDir::new().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        fs::write(&old, "the results of yesterday, which are longer").unwrap();
        for path in [&new, &old] {
            let opened = ReportFile::open(path).unwrap();
            assert!(!new.exists(), "an empty file looks like a result, also while it is measured");
            drop(opened);
        }
        assert!(!new.exists());
        assert!(fs::read_to_string(&old).unwrap().starts_with("the results of yesterday"));
        for path in [&new, &old] {
            ReportFile::open(path).unwrap().write("{}\n").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "{}\n");
        }
    }

    #[test]
    fn one_file_under_two_names_is_refused_and_unchanged() {
        let dir = TempDir::new().unwrap();
        let (input, other) = (dir.path().join("input"), dir.path().join("other"));
        fs::write(&input, "what was read").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&input, &link).unwrap();
        let open = |path: &Path| Some(ReportFile::open(path).unwrap());
        let detour = dir.path().join("./other");
        for (one, two) in [(&link, None), (&other, Some(&detour)), (&other, Some(&link))] {
            let files = (open(one), two.and_then(|two| open(two)));
            let refused = check_distinct(&input, &[&files.0, &files.1]);
            assert!(matches!(refused, Err(Failure::Usage(_))), "{one:?} {two:?}");
        }
        assert_eq!(fs::read_to_string(&input).unwrap(), "what was read");
        assert!(!other.exists());
        let null = Path::new("/dev/null");
        check_distinct(&input, &[&open(&other), &open(null), &open(null), &None]).unwrap();
    }

    #[test]
    fn a_bad_path_and_a_full_disk_are_reported() {
        let dir = TempDir::new().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("no/such")] {
            let error = ReportFile::open(&path).unwrap_err();
            assert!(matches!(error, Failure::Failed(text) if text.starts_with("cannot write ")));
        }
        let full = ReportFile::open(Path::new("/dev/full")).unwrap();
        let error = full.write("{}\n").unwrap_err();
        assert!(matches!(error, Failure::Failed(text) if text.contains("No space left")));
        ReportFile::open(Path::new("/dev/null")).unwrap().write("{}\n").unwrap();
    }
}
