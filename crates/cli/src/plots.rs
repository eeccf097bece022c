//! The directory for plots. A path that cannot be used is reported before the measurement.

use std::fs;
use std::path::{Path, PathBuf};

use lustrine_report::Figure;

use crate::output::{Failure, note};
use crate::report_file::ReportFile;

/// A directory that can be written.
#[derive(Debug)]
pub(crate) struct PlotsDir {
    path: PathBuf,
    /// Whether it was not there before.
    is_new: bool,
}

impl Drop for PlotsDir {
    /// A run without plots, or one that failed, leaves no empty directory.
    fn drop(&mut self) {
        if self.is_new {
            // It stays if there is something in it.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

impl PlotsDir {
    /// Makes the directory if it is not there.
    ///
    /// # Errors
    /// When it cannot be made, or no file can be made in it.
    pub(crate) fn open(path: &Path) -> Result<PlotsDir, Failure> {
        if path.as_os_str() == "-" {
            let words = "--plots writes several files into a directory: give it a name";
            return Err(Failure::Usage(words.to_owned()));
        }
        let cannot = |error| format!("cannot make the directory {}: {error}", path.display());
        let is_new = !path.exists();
        fs::create_dir_all(path).map_err(cannot)?;
        let dir = PlotsDir { path: path.to_owned(), is_new };
        // As for every file of results, this shows whether it can be made and leaves none.
        ReportFile::open(&path.join("lustrine-plots-can-be-written"))?;
        Ok(dir)
    }

    /// Writes each plot as SVG and as PNG. Files of the same names are replaced, others stay.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn write(self, figures: &[Figure]) -> Result<(), Failure> {
        if figures.is_empty() {
            note(&format!(
                "no plots in {}: nothing was measured at two values of one name, nor for pairs, \
                 nor with latencies",
                self.path.display()
            ));
        }
        for figure in figures {
            let file = |end| ReportFile::open(&self.path.join(format!("{}.{end}", figure.name)));
            file("svg")?.write(&figure.svg())?;
            let png = figure.png();
            let png = png.map_err(|why| format!("cannot make a PNG of {}: {why}", figure.name))?;
            file("png")?.write_bytes(&png)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lustrine_report::{Axis, Line, LineStyle, Page, Plot, Scale};
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn each_plot_is_two_files() {
        let line = Line::new("a".to_owned(), vec![(1.0, 1.0)], LineStyle::Solid, 0);
        let mut page = Page::new("t", "");
        page.figure(&Plot {
            title: "Latency".to_owned(),
            x: Axis::new("x", Scale::Linear),
            y: Axis::new("y", Scale::Linear),
            key: String::new(),
            lines: vec![line],
        });
        let figures = page.end("").figures;
        let dir = TempDir::new().unwrap();
        let plots = dir.path().join("new/plots");
        for _ in 0..2 {
            let opened = PlotsDir::open(&plots).unwrap();
            opened.write(&figures).unwrap();
            let mut names: Vec<_> =
                fs::read_dir(&plots).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["01-latency.png", "01-latency.svg"]);
        }
        // What was never written leaves nothing.
        let unused = dir.path().join("unused");
        drop(PlotsDir::open(&unused).unwrap());
        assert!(!unused.exists() && plots.exists());
        let file = plots.join("01-latency.svg");
        let error = PlotsDir::open(&file).unwrap_err();
        assert!(
            matches!(error, Failure::Failed(why) if why.starts_with("cannot make the directory"))
        );
    }
}
