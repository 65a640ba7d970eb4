//! What the kernel gave for an arena, and what is said of it.

use std::fmt;

use super::hugepage::Refused;
use super::page::PageKind;
use crate::sys::os::CallError;
use crate::words::{Bytes, Grouped, Rounded};

/// What the kernel gave: a value to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The kind of page.
    pub kind: PageKind,
    /// Size of one page in bytes.
    pub page_bytes: usize,
    /// Number of pages.
    pub pages: usize,
    /// The NUMA node of the first page; `None` where the kernel does not tell.
    pub node: Option<u32>,
    /// Why the node asked for was not made binding, if so. The pages may then be anywhere.
    pub bind_refused: Option<CallError>,
    /// Whether the pages are locked.
    pub locked: bool,
    /// The kinds of pages that were tried before, with the reason of each.
    pub refused: Vec<Refused>,
}

/// One line, and one more for each kind of page that was refused before.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pages, page) = (Grouped(self.pages as u64), Bytes(self.page_bytes as u64));
        let transparent = if self.kind == PageKind::Transparent { " (transparent)" } else { "" };
        let plural = if self.pages == 1 { "page" } else { "pages" };
        write!(f, "{} on {pages} {plural} of {page}{transparent}", Rounded((self.pages * self.page_bytes) as u64))?;
        match self.node {
            Some(node) => write!(f, ", node {node}")?,
            None => f.write_str(", node unknown")?,
        }
        if let Some(cause) = &self.bind_refused {
            write!(f, " (not bound: {cause})")?;
        }
        if self.locked {
            f.write_str(", locked")?;
        }
        List(&self.refused).fmt(f)
    }
}

/// Each on a line of its own.
pub(super) struct List<'a>(pub(super) &'a [Refused]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|refused| write!(f, "\n  not on {refused}"))
    }
}

/// A limit in bytes, if there is one.
pub(crate) struct Limit(pub Option<u64>);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => Bytes(bytes).fmt(f),
            None => f.write_str("unlimited"),
        }
    }
}
