//! The file for the results: a bad path is found before anything is measured, and a run that fails
//! leaves nothing that could be taken for a result.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::output::{Failure, print};

/// Where the results go.
#[derive(Debug)]
pub(crate) enum ReportFile {
    /// Standard output, instead of the table.
    Stdout,
    /// A file.
    File(OpenedFile),
}

/// An open file. What it held before stays until the results are there.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    file: File,
    /// Whether it is empty and by us: dropping this removes it then.
    ours: bool,
}

impl ReportFile {
    /// Opens it for writing; "-" is standard output.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub(crate) fn open(path: &Path) -> Result<ReportFile, Failure> {
        if path.as_os_str() == "-" {
            return Ok(ReportFile::Stdout);
        }
        let open = |options: &mut OpenOptions| options.write(true).open(path);
        let opened = match open(OpenOptions::new().create_new(true)) {
            Ok(file) => Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A dangling link exists and is no file yet.
                open(OpenOptions::new().create(true).truncate(false)).map(|file| (file, false))
            }
            Err(error) => Err(error),
        };
        let (file, ours) = opened.map_err(|error| write_error(path, &error))?;
        Ok(ReportFile::File(OpenedFile { path: path.to_owned(), file, ours }))
    }

    /// Writes the results.
    ///
    /// # Errors
    /// When that fails, as on a full disk; the file is empty then, or gone.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        match self {
            ReportFile::Stdout => print(text),
            ReportFile::File(mut opened) => {
                opened.replace(text).map_err(|error| write_error(&opened.path, &error))
            }
        }
    }
}

/// Refuses files of which one would be written over another, or over what was read, by whatever
/// names: nothing has been written yet.
///
/// # Errors
/// When two are one.
pub(crate) fn check_distinct(read: &Path, written: &[&Option<ReportFile>]) -> Result<(), Failure> {
    let mut taken = Vec::new();
    taken.extend(
        fs::metadata(read).ok().filter(fs::Metadata::is_file).map(|about| identity(&about)),
    );
    for file in written.iter().copied().flatten() {
        let ReportFile::File(opened) = file else { continue };
        let Ok(about) = opened.file.metadata() else { continue };
        // Devices may be shared: /dev/null holds nothing.
        if !about.is_file() {
            continue;
        }
        if taken.contains(&identity(&about)) {
            let path = opened.path.display();
            let words = format!(
                "{path} is given twice: what is read, and each file that is written, needs a file \
                 of its own; nothing was written"
            );
            return Err(Failure::Usage(words));
        }
        taken.push(identity(&about));
    }
    Ok(())
}

/// What makes a file itself, whatever it is called.
fn identity(about: &fs::Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

impl OpenedFile {
    fn replace(&mut self, text: &str) -> io::Result<()> {
        // Only files have a length to set; a pipe or a device takes what it is given.
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
    fn a_run_that_fails_leaves_what_was_there() {
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
    fn one_file_under_two_names_is_refused_and_left_alone() {
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
    fn a_bad_path_and_a_full_disk_are_told() {
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
