//! A file that a run writes at its end, and that is looked at before it begins: an hour of measuring is not to end with
//! "permission denied".

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::patience;

/// The file that an option names. One that is made here and never written is removed again.
#[derive(Debug)]
pub(super) struct Target {
    path: PathBuf,
    /// If it was not there before: which file was made, empty.
    made: Option<(u64, u64)>,
}

impl Target {
    /// Sees to it that `path`, which `option` names, can be written. What is in it stays until it is.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn new(option: &str, path: &Path) -> Result<Self, Failure> {
        let refuse = |why: &dyn std::fmt::Display| Err(Failure::usage(format!("{option}: {why}")));
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return refuse(&format_args!("{} is a directory", path.display())),
            Ok(found) if found.is_file() => OpenOptions::new().append(true).open(path).map(|_| None),
            // A pipe or a device: opening it may wait, or do something.
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Also where a link leads that leads nowhere yet.
                let made = OpenOptions::new().append(true).create(true).open(path).and_then(|file| file.metadata());
                made.map(|made| Some(place(&made)))
            }
            Err(error) => Err(error),
        };
        match made {
            Ok(made) => Ok(Self { path: path.to_owned(), made }),
            Err(_) if !directory.is_dir() => refuse(&format_args!("there is no directory {}", directory.display())),
            Err(error) => refuse(&format_args!("cannot write {}: {error}", path.display())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether both names lead to one file, in which the second would replace the first.
    pub(super) fn is_same_as(&self, other: &Target) -> bool {
        let place = |target: &Target| fs::metadata(&target.path).ok().filter(fs::Metadata::is_file).as_ref().map(place);
        place(self).is_some() && place(self) == place(other)
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// It cannot be opened or written.
    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        patience::write_file(&self.path, text.to_owned())?;
        self.made = None;
        Ok(())
    }
}

/// What tells one file from all others.
fn place(found: &fs::Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

impl Drop for Target {
    fn drop(&mut self) {
        let found = fs::metadata(&self.path).ok().filter(|found| found.len() == 0);
        // Not what somebody else has put in its place.
        if self.made.is_some() && found.as_ref().map(place) == self.made {
            // A link to it stays. If that does not go, an empty file stays.
            let _ = fs::canonicalize(&self.path).and_then(fs::remove_file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("spinwire-target-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_file_that_was_not_written_is_not_left_behind() {
        let scratch = Scratch::new("left");
        let path = scratch.0.join("report.json");
        drop(Target::new("--json", &path).unwrap());
        assert!(!path.exists());
        let link = scratch.0.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        drop(Target::new("--json", &link).unwrap());
        assert!(!path.exists() && link.is_symlink(), "the link is not ours");
        let mut target = Target::new("--json", &path).unwrap();
        target.write("{}").unwrap();
        drop(target);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
        drop(Target::new("--json", &path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}", "the last report stays until there is a new one");
    }

    #[test]
    fn what_somebody_put_in_its_place_stays() {
        let scratch = Scratch::new("moved");
        let path = scratch.0.join("report.json");
        let target = Target::new("--json", &path).unwrap();
        fs::rename(&path, scratch.0.join("moved")).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(target);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn what_cannot_be_written_is_said_before_the_run() {
        let scratch = Scratch::new("said");
        let said = |path: &Path| {
            let failure = Target::new("--json", path).unwrap_err();
            assert_eq!(failure.status, crate::exit::USAGE);
            failure.message
        };
        assert!(said(&scratch.0).contains("is a directory"));
        assert!(said(&scratch.0.join("none/report.json")).contains("there is no directory"));
        let file = scratch.0.join("file");
        fs::write(&file, "").unwrap();
        assert!(said(&file.join("report.json")).contains("there is no directory"));
        assert!(said(Path::new("/proc/report.json")).contains("cannot write /proc/report.json: "));
    }

    #[test]
    fn two_names_of_one_file_are_found_out() {
        let scratch = Scratch::new("same");
        let (one, other) = (scratch.0.join("one"), scratch.0.join("other"));
        let first = Target::new("--json", &one).unwrap();
        std::os::unix::fs::symlink(&one, &other).unwrap();
        assert!(first.is_same_as(&Target::new("--plot", &other).unwrap()));
        assert!(!first.is_same_as(&Target::new("--plot", &scratch.0.join("third")).unwrap()));
    }
}
