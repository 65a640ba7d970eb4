//! What went wrong where no connection was there to be told of it.

use core::fmt;

use crate::shm::{self, Dropped};
use crate::sys::os::CallError;

/// What went wrong on the connection path beside the connections: counts since the start, and the last of each kind. A
/// server that wants to say so looks at it now and then: see [`AnyReactor::troubles`](super::AnyReactor::troubles).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Troubles {
    /// Clients that were turned away before the application could be asked (over shared memory).
    pub dropped: u64,
    /// The last of them.
    pub last_dropped: Option<Dropped>,
    /// Calls that failed where no connection could be told. A client that cannot be let in for want of a descriptor waits,
    /// and each try counts.
    pub failures: u64,
    /// The last of them.
    pub last_failure: Option<CallError>,
}

impl Troubles {
    /// Whether there were none.
    pub fn is_none(&self) -> bool {
        self.dropped == 0 && self.failures == 0
    }

    /// What came since `before` was got from the same reactor.
    pub fn since(&self, before: &Self) -> Self {
        let (dropped, failures) = (self.dropped - before.dropped, self.failures - before.failures);
        let last_dropped = self.last_dropped.filter(|_| dropped > 0);
        Self { dropped, last_dropped, failures, last_failure: self.last_failure.filter(|_| failures > 0) }
    }
}

/// `2 clients were turned away, the last was process 17 (user 5): user 5 is not allowed there`.
impl fmt::Display for Troubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dropped {
            0 => {}
            1 => f.write_str("a client was turned away")?,
            many => write!(f, "{many} clients were turned away")?,
        }
        if let Some(last) = &self.last_dropped {
            write!(f, "{} {last}", if self.dropped == 1 { ":" } else { ", the last was" })?;
        }
        if self.dropped > 0 && self.failures > 0 {
            f.write_str("; ")?;
        }
        match self.failures {
            0 => {}
            1 => f.write_str("a call failed:")?,
            many => write!(f, "{many} calls failed, the last was")?,
        }
        match &self.last_failure {
            Some(last) => write!(f, " {last}{}", shm::call_hint(last)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::{Credentials, DropReason};
    use crate::sys::os::Errno;
    use spinwire_core::cm::hello::Refusal;

    const FULL: CallError = CallError { call: "accept4", errno: Errno(libc::EMFILE) };

    #[test]
    fn each_kind_is_counted_and_the_last_of_it_told() {
        let client = Credentials { pid: 17, uid: 5 };
        let dropped = Dropped { client, why: DropReason::Refused(Refusal::User { uid: 5 }) };
        let before = Troubles::default();
        assert!(before.is_none());
        let one = Troubles { dropped: 1, last_dropped: Some(dropped), ..before };
        assert_eq!(one.to_string(), "a client was turned away: process 17 (user 5): user 5 is not allowed there");
        let more = Troubles { dropped: 3, failures: 1, last_failure: Some(FULL), ..one };
        let text = more.since(&one).to_string();
        assert!(text.starts_with("2 clients were turned away, the last was process 17 (user 5): user 5"), "{text}");
        assert!(text.contains("; a call failed: accept4: Too many open files") && text.contains("ulimit -n"), "{text}");
        let later = Troubles { failures: 101, ..more };
        let text = later.since(&more).to_string();
        assert!(text.starts_with("100 calls failed, the last was accept4: Too many"), "{text}");
        assert!(later.since(&later).is_none());
    }
}
