//! Who has to find the faults of a table.

use std::collections::BTreeSet;

use super::table::{self, Mutation};

/// A table of faults, and who has to find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The engine under the simulator, within so many seeds.
    Simulator,
    /// The rings under the model checker, each fault by the test that the table names.
    Rings,
}

/// Within so many seeds the simulator has to find a fault.
const SEEDS: u32 = 1_000;

impl Subject {
    pub const ALL: [Subject; 2] = [Subject::Simulator, Subject::Rings];

    /// The faults, after the core as it is: were something found there, it would be found in every mutation too.
    pub fn mutations(self) -> Result<Vec<Mutation>, String> {
        let (name, text) = match self {
            Subject::Simulator => ("simulator.txt", include_str!("simulator.txt")),
            Subject::Rings => ("rings.txt", include_str!("rings.txt")),
        };
        let mut mutations = table::parse(text).map_err(|error| format!("{name}: {error}"))?;
        if let Some(mutation) = mutations.iter().find(|mutation| mutation.tests.is_empty() == (self == Subject::Rings))
        {
            return Err(format!("{name}: {} must name a test, or must not", mutation.name));
        }
        let tests: BTreeSet<_> = mutations.iter().flat_map(|mutation| mutation.tests.clone()).collect();
        mutations.insert(0, Mutation { tests: tests.into_iter().collect(), ..Mutation::none() });
        Ok(mutations)
    }

    /// The folder below `target/mutations`.
    pub fn folder(self) -> &'static str {
        match self {
            Subject::Simulator => "simulator",
            Subject::Rings => "rings",
        }
    }

    /// Who looks: a package beside the core.
    pub fn manifest(self) -> String {
        let package = "[package]\nname = \"mutant\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n";
        match self {
            Subject::Simulator => {
                format!("{package}\n[dependencies]\nspinwire-core = {{ path = \"../core\", features = [\"sim\"] }}\n")
            }
            // The tests of the core, without what its other tests need.
            Subject::Rings => format!(
                "{package}\n[[test]]\nname = \"loom_ring\"\npath = \"../core/tests/loom_ring.rs\"\n\n[dependencies]\n\
                 spinwire-core = {{ path = \"../core\" }}\nloom.workspace = true\n"
            ),
        }
    }

    /// How it is built, apart from what the workspace says.
    pub fn profile(self) -> &'static str {
        match self {
            Subject::Simulator => "",
            // The model checker is built once and runs often.
            Subject::Rings => "\n[profile.dev.package.loom]\nopt-level = 3\n",
        }
    }

    /// The program of that package, apart from tests.
    pub fn source(self) -> &'static str {
        match self {
            Subject::Simulator => include_str!("mutant.rs"),
            Subject::Rings => "//! Only there for its test.\n",
        }
    }

    pub fn rustflags(self) -> &'static str {
        match self {
            Subject::Simulator => "",
            Subject::Rings => "--cfg loom",
        }
    }

    /// How cargo builds the program that looks.
    pub fn build(self) -> &'static [&'static str] {
        match self {
            Subject::Simulator => &["build"],
            Subject::Rings => &["test", "--no-run", "--test", "loom_ring"],
        }
    }

    /// What the program is told.
    pub fn arguments(self, mutation: &Mutation) -> Vec<String> {
        match self {
            Subject::Simulator => vec![SEEDS.to_string()],
            Subject::Rings => mutation.tests.iter().cloned().chain(["--exact".into()]).collect(),
        }
    }

    /// What its words come to, if it ended by itself: with `code`, or by a panic in a panic.
    pub fn verdict(self, mutation: &Mutation, code: Option<i32>, words: &str) -> Result<Option<String>, String> {
        let passed = format!("test result: ok. {} passed", mutation.tests.len());
        match (self, code) {
            (Subject::Simulator, Some(0)) => Ok(None),
            (Subject::Simulator, Some(1)) => Ok(Some(words.trim().into())),
            (Subject::Rings, Some(0)) if words.contains(&passed) => Ok(None),
            (Subject::Rings, Some(0)) => Err("a test that the table names is not there".into()),
            (Subject::Rings, Some(101) | None) => {
                Ok(Some(format!("{}: {}", mutation.tests.join(", "), complaint(words))))
            }
            _ => Err(format!("the program ended with {code:?}")),
        }
    }
}

/// What the first panic says.
fn complaint(words: &str) -> &str {
    let mut lines = words.lines().skip_while(|line| !line.contains("panicked at"));
    lines.next();
    lines.next().unwrap_or("it ends in the middle")
}
