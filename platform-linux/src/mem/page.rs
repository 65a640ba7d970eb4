//! Kinds of pages, and the order in which to try them.

use std::fmt;
use std::str::FromStr;

/// What a mapping stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// Reserved hugepages of 1 GiB. The size is rounded up to whole pages.
    OneGib,
    /// Reserved hugepages of 2 MiB.
    TwoMib,
    /// Hugepages of 2 MiB that the kernel finds itself, when asked for. All of the mapping, or it counts as refused.
    Transparent,
    /// The processor's base pages, mostly 4 KiB.
    Small,
}

impl PageKind {
    /// Bytes in one page.
    pub fn page_bytes(self) -> usize {
        match self {
            PageKind::OneGib => 1 << 30,
            PageKind::TwoMib | PageKind::Transparent => 2 << 20,
            PageKind::Small => super::map::small_page_bytes(),
        }
    }

    /// The name used in options: `1g`, `2m`, `thp`, `small`.
    pub fn name(self) -> &'static str {
        match self {
            PageKind::OneGib => "1g",
            PageKind::TwoMib => "2m",
            PageKind::Transparent => "thp",
            PageKind::Small => "small",
        }
    }
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageKind::OneGib => f.write_str("1 GiB pages"),
            PageKind::TwoMib => f.write_str("2 MiB pages"),
            PageKind::Transparent => f.write_str("transparent hugepages"),
            PageKind::Small => f.write_str("small pages"),
        }
    }
}

/// The kinds of pages that are allowed, in the order to try them. Never empty.
///
/// The default is `2m,thp,small`. Leave the last ones out to be refused instead of getting smaller pages. Pages of
/// 1 GiB are used only where they are named, because every arena takes at least one whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePolicy(Vec<PageKind>);

impl PagePolicy {
    /// Tries `kinds` in this order.
    ///
    /// # Errors
    /// [`PagePolicyError::Empty`].
    pub fn new(kinds: impl IntoIterator<Item = PageKind>) -> Result<Self, PagePolicyError> {
        let kinds: Vec<PageKind> = kinds.into_iter().collect();
        if kinds.is_empty() { Err(PagePolicyError::Empty) } else { Ok(PagePolicy(kinds)) }
    }

    /// The kinds in their order.
    pub fn kinds(&self) -> &[PageKind] {
        &self.0
    }
}

impl Default for PagePolicy {
    fn default() -> Self {
        PagePolicy(vec![PageKind::TwoMib, PageKind::Transparent, PageKind::Small])
    }
}

/// Reads `2m,thp,small`.
impl FromStr for PagePolicy {
    type Err = PagePolicyError;

    fn from_str(text: &str) -> Result<Self, PagePolicyError> {
        const ALL: [PageKind; 4] = [PageKind::OneGib, PageKind::TwoMib, PageKind::Transparent, PageKind::Small];
        let kind = |name: &str| {
            let found = ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name.trim()));
            found.ok_or_else(|| PagePolicyError::Unknown { name: name.trim().to_owned() })
        };
        if text.trim().is_empty() {
            return Err(PagePolicyError::Empty);
        }
        text.split(',').map(kind).collect::<Result<_, _>>().map(PagePolicy)
    }
}

/// Writes what [`FromStr`] reads.
impl fmt::Display for PagePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|kind| kind.name()).collect();
        f.write_str(&names.join(","))
    }
}

/// A page policy that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagePolicyError {
    /// No kind is allowed.
    #[error("no kind of page is allowed; name at least one of 1g, 2m, thp, small")]
    Empty,
    /// Not a kind of page.
    #[error("unknown kind of page {name:?}; there are 1g, 2m, thp, small")]
    Unknown {
        /// What was written.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_written() {
        for text in ["2m,thp,small", "1g", "small,1g"] {
            assert_eq!(text.parse::<PagePolicy>().unwrap().to_string(), text);
        }
        assert_eq!(" 2M , THP ".parse(), PagePolicy::new([PageKind::TwoMib, PageKind::Transparent]));
        assert_eq!(PagePolicy::default().to_string(), "2m,thp,small");
        assert_eq!("".parse::<PagePolicy>(), Err(PagePolicyError::Empty));
        assert_eq!(PagePolicy::new([]), Err(PagePolicyError::Empty));
        let error = "2m,4k".parse::<PagePolicy>().unwrap_err();
        assert_eq!(error.to_string(), r#"unknown kind of page "4k"; there are 1g, 2m, thp, small"#);
    }
}
