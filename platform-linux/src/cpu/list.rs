//! The kernel's notation for sets of CPUs.

use std::fmt;

use super::AllowedCpus;

/// Parses the kernel's list of CPUs: `0,2-4` is 0, 2, 3, 4; the empty text is no CPU. Sorted, each number once.
///
/// # Errors
/// [`CpuListError`] with the part that is not a number or an ascending range of numbers below 8,192.
pub fn parse_cpu_list(text: &str) -> Result<Vec<u32>, CpuListError> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse().ok().filter(|&cpu: &u32| cpu < 8192);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
            _ => return Err(CpuListError { part: part.to_owned() }),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// A part of a CPU list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a CPU number or range: {part:?} (a list looks like 0,2-4)")]
pub struct CpuListError {
    /// The part between two commas.
    pub part: String,
}

/// The notation of the kernel: runs as `first-last`.
impl fmt::Display for AllowedCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (n, run) in runs.enumerate() {
            let comma = if n > 0 { "," } else { "" };
            match *run {
                [cpu] => write!(f, "{comma}{cpu}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => unreachable!("chunk_by yields no empty run"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        let cases: [(&str, &[u32]); 6] = [
            ("", &[]),
            ("\n", &[]),
            ("0\n", &[0]),
            ("0,2-4", &[0, 2, 3, 4]),
            ("7,1-1,1", &[1, 7]),
            (" 5 - 6 ", &[5, 6]),
        ];
        for (text, cpus) in cases {
            assert_eq!(parse_cpu_list(text).as_deref(), Ok(cpus), "{text:?}");
        }
        for (text, part) in
            [("a", "a"), ("1,,2", ""), ("4-2", "4-2"), ("-1", "-1"), ("0-99999", "0-99999"), ("1-2-3", "1-2-3")]
        {
            assert_eq!(parse_cpu_list(text), Err(CpuListError { part: part.into() }), "{text:?}");
        }
    }

    #[test]
    fn sets_are_printed_as_the_kernel_writes_them() {
        for text in ["0", "0,2-4", "1-2,5,7-9"] {
            assert_eq!(AllowedCpus(parse_cpu_list(text).unwrap()).to_string(), text);
        }
        assert_eq!(AllowedCpus(vec![]).to_string(), "none");
    }
}
