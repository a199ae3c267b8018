//! The report files of a checker: one for each process, missing or empty if there is nothing to
//! report.

use crate::Result;
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of lines of a report that are shown; the file has all of them.
const LINES: usize = 60;

/// A folder of reports.
pub(crate) struct Reports {
    folder: PathBuf,
}

impl Reports {
    /// Makes an empty folder below `target/`.
    pub(crate) fn new(workspace: &Workspace, folder: &str) -> Result<Self> {
        let reports = Reports { folder: workspace.folder(folder)? };
        reports.forget()?;
        Ok(reports)
    }

    /// The folder of the reports.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The text of all reports.
    pub(crate) fn text(&self) -> Result<String> {
        Ok(self.read()?.into_iter().map(|(_, text)| text).collect())
    }

    /// Removes all reports.
    pub(crate) fn forget(&self) -> Result {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Prints the start of each report. It is an error if there is one.
    pub(crate) fn judge(&self, what: &str) -> Result {
        let reports = self.read()?;
        for (file, text) in &reports {
            println!("{}:", file.display());
            text.lines().take(LINES).for_each(|line| println!("  {line}"));
        }
        match reports.len() {
            0 => {
                println!("{what}: nothing to report");
                Ok(())
            }
            count => Err(format!("{what}: {count} reports in {}", self.folder.display()).into()),
        }
    }

    fn read(&self) -> Result<Vec<(PathBuf, String)>> {
        let mut reports = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            if !text.trim().is_empty() {
                reports.push((path, text));
            }
        }
        reports.sort();
        Ok(reports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_an_error() {
        let folder = std::env::temp_dir().join(format!("kernpack-reports-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let reports = Reports { folder: folder.clone() };
        fs::write(folder.join("1"), "\n").unwrap();
        reports.judge("the check").unwrap();
        fs::write(folder.join("2"), "a leak\n").unwrap();
        assert_eq!(reports.text().unwrap(), "a leak\n");
        let error = reports.judge("the check").unwrap_err().to_string();
        assert!(error.starts_with("the check: 1 reports in "), "{error}");
        reports.forget().unwrap();
        reports.judge("the check").unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
