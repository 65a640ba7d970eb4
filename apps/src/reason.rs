//! Why a connection ended, in the words of what it went over, and with the system's words for error numbers, which core
//! cannot look up.

use std::fmt;
use std::io::Error;

use spinwire_core::cm::event::{CmEventKind, Peer};
use spinwire_core::cm::hello::{HelloError, Refusal};
use spinwire_core::cm::reason::CloseReason;
use spinwire_core::cm::table::State;
use spinwire_linux::address::Address;
use spinwire_linux::shm::limit_hint;

/// What a connection goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// RDMA: there are ports, devices and a network.
    Rdma,
    /// Shared memory: there are names, processes and users.
    Shm,
}

impl Over {
    /// What leads to an address.
    pub fn of(address: &Address) -> Self {
        match address {
            Address::Rdma(_) => Over::Rdma,
            Address::Shm(_) => Over::Shm,
        }
    }

    /// What a peer came over. One of whom nothing is known came over the network.
    pub fn from(peer: Option<Peer>) -> Self {
        match peer {
            Some(Peer::Process { .. }) => Over::Shm,
            _ => Over::Rdma,
        }
    }
}

/// Prints a reason, and behind it what the error number in it means, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(pub &'a CloseReason, pub Over);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(reason, over) = *self;
        match over {
            Over::Shm => over_shm(reason, f)?,
            Over::Rdma => write!(f, "{reason}")?,
        }
        match *reason {
            CloseReason::Call { errno, .. } | CloseReason::Post { errno, .. } => {
                write!(f, ": {}{}", Error::from_raw_os_error(errno), limit_hint(errno))
            }
            // Negative means an error number; a positive status is a code of InfiniBand and has no such words. And -1 is
            // what librdmacm gives when a call of its own failed while it fetched the event: no number, not EPERM.
            CloseReason::Event { status, .. } if status < -1 => {
                let errno = status.saturating_neg();
                write!(f, ": {}{}", Error::from_raw_os_error(errno), limit_hint(errno))
            }
            _ => Ok(()),
        }
    }
}

/// Prints why a request was refused.
#[derive(Clone, Copy, Debug)]
pub struct RefusalWords<'a>(pub &'a Refusal, pub Over);

impl fmt::Display for RefusalWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            // There are no others than spinwires there, and no raw mode.
            RefusalWords(Refusal::NotSpinwire, Over::Shm) => f.write_str("the request is no spinwire's"),
            RefusalWords(refusal, _) => refusal.fmt(f),
        }
    }
}

/// The words for what is called otherwise between processes than on a network.
fn over_shm(reason: &CloseReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match *reason {
        CloseReason::NobodyListens => f.write_str("nobody listens at that name"),
        CloseReason::Rejected { code: NO_RESOURCES } => {
            f.write_str("the server has no room for it now (places, descriptors or memory)")
        }
        CloseReason::Rejected { code: REFUSED_BY_PROGRAM } => {
            f.write_str("refused by the peer, which does not say why")
        }
        CloseReason::Rejected { code } => write!(f, "refused by the peer with code {code}"),
        CloseReason::Refused(refusal) => write!(f, "refused by the peer: {}", RefusalWords(&refusal, Over::Shm)),
        CloseReason::Hello(HelloError::NotSpinwire) => f.write_str("the peer's answer is no spinwire's"),
        CloseReason::Event { step: State::Connecting, event: CmEventKind::ConnectError, status } => match -status {
            libc::ECONNRESET => f.write_str("the server hung up before it answered"),
            libc::EPROTO => f.write_str("the server's answer is not what this version understands"),
            _ => f.write_str("what the server shares cannot be used here"),
        },
        CloseReason::KeepaliveLost { silent, asked: true, acknowledged } => {
            let took =
                if acknowledged { "took the question and does not answer" } else { "does not take the question" };
            write!(f, "nothing was heard of the peer for {silent}: its program {took} (stopped, or too busy)")
        }
        _ => write!(f, "{reason}"),
    }
}

/// What a server answers that can take no more: InfiniBand's number for it, IBTA volume 1, 12.6.7.2.
pub(crate) const NO_RESOURCES: i32 = 3;
/// Of one that refuses, from the same list.
const REFUSED_BY_PROGRAM: i32 = 28;

#[cfg(test)]
mod tests {
    use super::*;
    use spinwire_core::time::Nanos;

    fn words(reason: CloseReason, over: Over) -> String {
        Words(&reason, over).to_string()
    }

    #[test]
    fn error_numbers_get_words_and_reason_codes_do_not() {
        let event = |status| CloseReason::Event { step: State::Connecting, event: CmEventKind::Unreachable, status };
        assert!(words(event(-110), Over::Rdma).ends_with("status -110: Connection timed out (os error 110)"));
        assert!(words(event(28), Over::Rdma).ends_with("status 28"));
        assert!(words(event(-1), Over::Rdma).ends_with("status -1"));
        let call = CloseReason::Call { step: State::Accepting, call: "rdma_create_qp", errno: 12 };
        assert!(words(call, Over::Rdma).ends_with("errno 12: Cannot allocate memory (os error 12)"));
        let event = CmEventKind::ConnectError;
        for files in [
            CloseReason::Call { step: State::Connecting, call: "socket", errno: libc::EMFILE },
            CloseReason::Event { step: State::Connecting, event, status: -libc::EMFILE },
        ] {
            assert!(words(files, Over::Shm).contains("; the limit of open files is "), "{files}");
        }
        assert_eq!(words(CloseReason::Local, Over::Rdma), CloseReason::Local.to_string());
    }

    #[test]
    fn between_processes_no_port_no_device_and_no_infiniband_is_spoken_of() {
        let event = CmEventKind::ConnectError;
        for reason in [
            CloseReason::NobodyListens,
            CloseReason::Rejected { code: 3 },
            CloseReason::Rejected { code: 28 },
            CloseReason::Rejected { code: 77 },
            CloseReason::Refused(Refusal::NotSpinwire),
            CloseReason::Hello(HelloError::NotSpinwire),
            CloseReason::Event { step: State::Connecting, event, status: -libc::ECONNRESET },
            CloseReason::KeepaliveLost { silent: Nanos::from_secs(9), asked: true, acknowledged: true },
            CloseReason::KeepaliveLost { silent: Nanos::from_secs(9), asked: true, acknowledged: false },
            CloseReason::KeepaliveLost { silent: Nanos::from_secs(9), asked: false, acknowledged: false },
        ] {
            let text = words(reason, Over::Shm);
            assert!(
                !["port", "device", "InfiniBand", "machine", "rdma", "raw"].iter().any(|word| text.contains(word)),
                "{text}"
            );
        }
    }
}
