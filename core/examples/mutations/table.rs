//! The table of mutations.

/// One deliberate fault.
#[derive(Debug)]
pub struct Mutation {
    /// What it breaks.
    pub name: String,
    /// Below `core/src`.
    pub file: String,
    /// Lines that stand in the file exactly once, without their indentation.
    pub old: Vec<String>,
    /// What stands there instead.
    pub new: Vec<String>,
    /// The tests that have to find it, where a test has to.
    pub tests: Vec<String>,
}

impl Mutation {
    /// No fault.
    pub fn none() -> Self {
        Self {
            name: "the core as it is".into(),
            file: String::new(),
            old: Vec::new(),
            new: Vec::new(),
            tests: Vec::new(),
        }
    }

    pub fn is_none(&self) -> bool {
        self.file.is_empty()
    }

    /// `source` with the fault.
    pub fn apply(&self, source: &str) -> Result<String, String> {
        let lines: Vec<_> = source.lines().collect();
        let at: Vec<_> = lines
            .windows(self.old.len())
            .enumerate()
            .filter(|(_, window)| window.iter().zip(&self.old).all(|(line, old)| line.trim() == old))
            .map(|(at, _)| at)
            .collect();
        let &[at] = at.as_slice() else {
            return Err(format!("`{}` is {} times in {}, not once", self.old.join(" "), at.len(), self.file));
        };
        let new = self.new.iter().map(String::as_str);
        let (before, rest) = lines.split_at(at);
        Ok(before
            .iter()
            .copied()
            .chain(new)
            .chain(rest[self.old.len()..].iter().copied())
            .collect::<Vec<_>>()
            .join("\n"))
    }
}

/// Reads the table: `== NAME`, `test NAME` where a test has to find it, `file PATH`, then lines `- OLD` and `+ NEW`. Lines that begin with `#` are for people.
pub fn parse(text: &str) -> Result<Vec<Mutation>, String> {
    let mut mutations: Vec<Mutation> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        if mark == "==" {
            mutations.push(Mutation { name: rest.into(), ..Mutation::none() });
            continue;
        }
        let last = mutations.last_mut().ok_or("it does not begin with a name")?;
        match mark {
            "test" => last.tests.push(rest.into()),
            "file" => last.file = rest.into(),
            "-" => last.old.push(rest.trim().into()),
            "+" => last.new.push(rest.into()),
            _ => return Err(format!("line {}: `{line}`", number + 1)),
        }
    }
    match mutations.iter().find(|mutation| mutation.old.is_empty() || mutation.is_none()) {
        Some(mutation) => Err(format!("{} says not what to change", mutation.name)),
        None => Ok(mutations),
    }
}
