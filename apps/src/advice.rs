//! What to try next when a connection does not come up, for reasons that have an answer.

use std::fmt;

use spinwire_core::cm::hello::{HelloError, Refusal};
use spinwire_core::cm::reason::CloseReason;
use spinwire_core::cm::table::State;

use crate::reason::{NO_RESOURCES, Over};

/// Behind the reason: `; is the server running, and on that port?`, or nothing.
pub(crate) struct Advice<'a>(pub(crate) &'a CloseReason, pub(crate) Over);

impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Advice(reason, over) = *self;
        let advice = to_both(reason).unwrap_or_else(|| match over {
            Over::Rdma => over_rdma(reason),
            Over::Shm => over_shm(reason),
        });
        if advice.is_empty() { Ok(()) } else { write!(f, "; {advice}") }
    }
}

/// What two Spinwires say to each other is the same over everything.
fn to_both(reason: &CloseReason) -> Option<&'static str> {
    Some(match reason {
        CloseReason::Refused(Refusal::TableFull { .. }) => "the server's --connections-max allows no more",
        CloseReason::Refused(Refusal::ShuttingDown) => "the server is about to end",
        CloseReason::Refused(Refusal::Version { .. }) => "use the same version on both sides",
        CloseReason::Refused(Refusal::User { .. }) => "the server's --allow-user can name this user",
        _ => return None,
    })
}

fn over_rdma(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::NobodyListens => "is the server running, and on that port?",
        CloseReason::Refused(Refusal::NotSpinwire) => "leave out --raw, or give the server --raw too",
        CloseReason::Hello(HelloError::NotSpinwire) => "give --raw for a server that is not spinwire",
        CloseReason::TimedOut { step: State::Connecting, .. } => {
            "the server's machine is there, but the server does not answer (stopped, or overloaded?)"
        }
        CloseReason::Event { status, .. } if *status == -libc::ENODEV => {
            "no rdma device is on the way to that address (`rdma link` lists devices and their interfaces)"
        }
        CloseReason::Event { .. } | CloseReason::TimedOut { .. } => {
            "can this machine reach the address (`ping`, `ip neigh`), and from the right device (--bind)?"
        }
        _ => "",
    }
}

fn over_shm(reason: &CloseReason) -> &'static str {
    match *reason {
        CloseReason::NobodyListens => "is the server running, and at that name?",
        CloseReason::Rejected { code: NO_RESOURCES } => {
            "raise the server's `ulimit -n` if it says that it lacks descriptors"
        }
        CloseReason::TimedOut { step: State::Connecting, .. } => {
            "the server's process is there, but does not answer (stopped, or overloaded?)"
        }
        CloseReason::Event { step: State::Connecting, status, .. } => match -status {
            libc::ECONNRESET => "what it prints may say why",
            libc::EPROTO => "use the same version on both sides",
            _ => "",
        },
        CloseReason::Call { errno: libc::EACCES, call: "connect", .. } => {
            "the permissions of the socket and of its directory say who may connect"
        }
        CloseReason::Call { errno: libc::EACCES, .. } => "--allow-user can name the server's user",
        CloseReason::Call { errno: libc::EPROTOTYPE, .. } => "that socket is another program's",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinwire_core::cm::event::CmEventKind;
    use spinwire_core::time::Nanos;

    fn advice(reason: CloseReason, over: Over) -> String {
        Advice(&reason, over).to_string()
    }

    fn event(step: State, event: CmEventKind, status: i32) -> CloseReason {
        CloseReason::Event { step, event, status }
    }

    #[test]
    fn each_way_has_its_own_words() {
        assert_eq!(advice(CloseReason::NobodyListens, Over::Rdma), "; is the server running, and on that port?");
        assert_eq!(advice(CloseReason::NobodyListens, Over::Shm), "; is the server running, and at that name?");
        let full = CloseReason::Refused(Refusal::TableFull { live: 1, capacity: 1 });
        assert_eq!(advice(full, Over::Shm), advice(full, Over::Rdma));
        assert!(advice(full, Over::Shm).contains("--connections-max"));
        assert_eq!(advice(CloseReason::Local, Over::Shm), "");
    }

    #[test]
    fn the_error_number_decides_what_helps() {
        let address = |status| event(State::AddrResolving, CmEventKind::AddrError, status);
        assert!(advice(address(-libc::ENODEV), Over::Rdma).contains("`rdma link`"));
        assert!(advice(address(-libc::EHOSTUNREACH), Over::Rdma).contains("`ip neigh`"));
        let answer = |status| event(State::Connecting, CmEventKind::ConnectError, status);
        assert!(advice(answer(-libc::EPROTO), Over::Shm).contains("same version"));
    }

    #[test]
    fn between_processes_no_port_and_no_device_is_spoken_of() {
        for reason in [
            CloseReason::NobodyListens,
            CloseReason::Rejected { code: 3 },
            CloseReason::TimedOut { step: State::Connecting, limit: Nanos::from_secs(1) },
            event(State::Connecting, CmEventKind::ConnectError, -libc::ECONNRESET),
            event(State::Established, CmEventKind::Unreachable, -libc::ETIMEDOUT),
            CloseReason::Call { step: State::Connecting, call: "connect", errno: libc::EACCES },
        ] {
            let text = advice(reason, Over::Shm);
            assert!(!["port", "--bind", "ping", "neigh"].iter().any(|word| text.contains(word)), "{text}");
        }
    }
}
