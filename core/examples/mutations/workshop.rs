//! A copy of the core, to put faults into.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::subject::Subject;
use super::table::Mutation;

/// A mutated core may hang where no virtual time passes.
const RUN_TAKES_MAX: Duration = Duration::from_secs(100);

/// What became of a mutation.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was found: where, and what did not hold.
    Found(String),
    /// It was not.
    NotFound,
    /// It could not be looked at.
    Broken(String),
}

impl Verdict {
    pub fn is_found(&self) -> bool {
        matches!(self, Verdict::Found(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Found(what) => write!(f, "found: {what}"),
            Verdict::NotFound => f.write_str("nothing was found"),
            Verdict::Broken(why) => f.write_str(why),
        }
    }
}

/// A workspace of its own with nothing in it but the core and a program that looks for faults.
pub struct Workshop {
    subject: Subject,
    root: PathBuf,
    original: PathBuf,
}

impl Workshop {
    /// Copies the core to `target/mutations/SUBJECT/NUMBER`. What was built there before is built on.
    pub fn new(subject: Subject, number: usize) -> io::Result<Self> {
        let original = Path::new(env!("CARGO_MANIFEST_DIR"));
        let repository = original.parent().ok_or(io::ErrorKind::NotFound)?;
        let root = repository.join("target/mutations").join(subject.folder()).join(number.to_string());
        for folder in ["src", "tests"] {
            copy_changed(&original.join(folder), &root.join("core").join(folder))?;
        }
        fs::copy(original.join("Cargo.toml"), root.join("core/Cargo.toml"))?;
        let workspace = fs::read_to_string(repository.join("Cargo.toml"))?;
        let members = |line: &str| if line.starts_with("members = ") { MEMBERS.into() } else { line.to_string() };
        let workspace = workspace.lines().map(members).collect::<Vec<_>>().join("\n");
        fs::write(root.join("Cargo.toml"), workspace + subject.profile())?;
        fs::copy(repository.join("Cargo.lock"), root.join("Cargo.lock"))?;
        fs::create_dir_all(root.join("mutant/src"))?;
        fs::write(root.join("mutant/Cargo.toml"), subject.manifest())?;
        let program = if subject == Subject::Rings { "lib.rs" } else { "main.rs" };
        fs::write(root.join("mutant/src").join(program), subject.source())?;
        Ok(Self { subject, root, original: original.join("src") })
    }

    /// Puts the fault in, builds, runs, and takes it out again.
    pub fn examine(&self, mutation: &Mutation) -> Verdict {
        self.try_to_examine(mutation).unwrap_or_else(|error| Verdict::Broken(error.to_string()))
    }

    fn try_to_examine(&self, mutation: &Mutation) -> io::Result<Verdict> {
        if mutation.is_none() {
            return self.build_and_run(mutation);
        }
        let source = fs::read_to_string(self.original.join(&mutation.file))?;
        let place = self.root.join("core/src").join(&mutation.file);
        fs::write(&place, mutation.apply(&source).map_err(io::Error::other)?)?;
        let verdict = self.build_and_run(mutation);
        fs::write(&place, source)?;
        verdict
    }

    fn build_and_run(&self, mutation: &Mutation) -> io::Result<Verdict> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(self.subject.build())
            .args(["--quiet", "--offline", "--package", "mutant", "--message-format", "json-render-diagnostics"])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", self.root.join("target"))
            .env("RUSTFLAGS", self.subject.rustflags())
            // Most are found at once: building takes longer than running.
            .envs([("CARGO_PROFILE_DEV_DEBUG", "false"), ("CARGO_PROFILE_DEV_OPT_LEVEL", "0")])
            .output()?;
        if !built.status.success() {
            let text = String::from_utf8_lossy(&built.stderr);
            let error = text.lines().find(|line| line.starts_with("error")).unwrap_or("no word why");
            return Ok(Verdict::Broken(format!("it does not build ({}): {error}", built.status)));
        }
        let program = String::from_utf8_lossy(&built.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .find_map(|message| message["executable"].as_str().map(PathBuf::from))
            .ok_or_else(|| io::Error::other("cargo names no program"))?;
        let mut mutant = Command::new(program);
        mutant.args(self.subject.arguments(mutation)).env("RUST_BACKTRACE", "0");
        let mut child = mutant.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let start = Instant::now();
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None if start.elapsed() < RUN_TAKES_MAX => thread::sleep(Duration::from_millis(20)),
                None => {
                    child.kill()?;
                    child.wait()?;
                    return Ok(Verdict::Found(format!("it does not end within {} s", RUN_TAKES_MAX.as_secs())));
                }
            }
        };
        let mut words = String::new();
        child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?.read_to_string(&mut words)?;
        Ok(match self.subject.verdict(mutation, status.code(), &words) {
            Ok(Some(what)) => Verdict::Found(what),
            Ok(None) => Verdict::NotFound,
            Err(why) => Verdict::Broken(why),
        })
    }
}

const MEMBERS: &str = r#"members = ["core", "mutant"]"#;

/// Copies files that differ, and removes what is not there any more: what did not change is not built again.
fn copy_changed(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !from.join(entry.file_name()).exists() {
            if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_changed(&entry.path(), &target)?;
        } else if fs::read(entry.path())? != fs::read(&target).unwrap_or_default() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
