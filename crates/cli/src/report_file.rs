//! The file for the results. A bad path is reported before the measurement begins, and a run that
//! fails leaves no file that could be mistaken for a result.

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

/// An open file. Its old contents stay until the results are written.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    file: File,
    /// Whether this program created it and has written nothing yet; dropping it then removes it.
    ours: bool,
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
            Ok(file) => Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                open_for_writing(path, Existing::Keep).map(|file| (file, false))
            }
            Err(error) => Err(error),
        };
        let (file, ours) = opened.map_err(|error| write_error(path, &error))?;
        Ok(ReportFile::File(OpenedFile { path: path.to_owned(), file, ours }))
    }

    /// Writes the results.
    ///
    /// # Errors
    /// When writing fails, as on a full disk; the file is then empty or removed.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        match self {
            ReportFile::Stdout => print(text),
            ReportFile::File(mut opened) => {
                opened.replace(text).map_err(|error| write_error(&opened.path, &error))
            }
        }
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
        let Ok(about) = opened.file.metadata() else { continue };
        // Devices such as /dev/null may be given several times.
        if !about.is_file() {
            continue;
        }
        if taken.contains(&identity(&about)) {
            let path = opened.path.display();
            let words = format!(
                "{path} is given twice: the input and each output need a file of their own; \
                 nothing was written"
            );
            return Err(Failure::Usage(words));
        }
        taken.push(identity(&about));
    }
    Ok(())
}

/// What identifies a file independently of its name.
fn identity(about: &fs::Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

impl OpenedFile {
    fn replace(&mut self, text: &str) -> io::Result<()> {
        // Pipes and devices have no length to set.
        let is_file = self.file.metadata()?.is_file();
        if is_file {
            self.file.set_len(0)?;
        }
        let written = self.file.write_all(text.as_bytes());
        if written.is_ok() {
            self.ours = false;
        } else if is_file {
            self.file.set_len(0)?;
        }
        written
    }
}

impl Drop for OpenedFile {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(&self.path);
        }
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
            drop(ReportFile::open(path).unwrap());
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
