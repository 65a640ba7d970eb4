//! Why a connection ended, with the system's words for error numbers, which core cannot look up.

use std::fmt;
use std::io::Error;

use spinwire_core::cm::reason::CloseReason;
use spinwire_linux::shm::files_hint;

/// Prints a reason, and behind it what the error number in it means, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(pub &'a CloseReason);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        match *self.0 {
            CloseReason::Call { errno, .. } | CloseReason::Post { errno, .. } => {
                write!(f, ": {}", Error::from_raw_os_error(errno))?;
                if errno == EMFILE { write!(f, "; {}", files_hint()) } else { Ok(()) }
            }
            // Negative means an error number; a positive status is a code of InfiniBand and has no such words. And -1 is
            // what librdmacm gives when a call of its own failed while it fetched the event: no number, not EPERM.
            CloseReason::Event { status, .. } if status < -1 => {
                write!(f, ": {}", Error::from_raw_os_error(status.saturating_neg()))
            }
            _ => Ok(()),
        }
    }
}

/// Linux' number for "too many open files".
const EMFILE: i32 = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use spinwire_core::cm::event::CmEventKind;
    use spinwire_core::cm::table::State;

    #[test]
    fn error_numbers_get_words_and_reason_codes_do_not() {
        let event = |status| CloseReason::Event { step: State::Connecting, event: CmEventKind::Unreachable, status };
        assert!(Words(&event(-110)).to_string().ends_with("status -110: Connection timed out (os error 110)"));
        assert!(Words(&event(28)).to_string().ends_with("status 28"));
        assert!(Words(&event(-1)).to_string().ends_with("status -1"));
        let call = CloseReason::Call { step: State::Accepting, call: "rdma_create_qp", errno: 12 };
        assert!(Words(&call).to_string().ends_with("errno 12: Cannot allocate memory (os error 12)"));
        assert_eq!(Words(&CloseReason::Local).to_string(), CloseReason::Local.to_string());
    }
}
