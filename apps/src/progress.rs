//! What `echo ping` says while it runs.

use std::fmt;
use std::fs;

use spinwire_core::cm::event::Peer;

use crate::units::counted;

/// What is said before the messages start. Put into words by the printer's thread, which may look into files for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Every connection is up.
    Connected {
        /// How many.
        connections: u32,
        /// Messages before the measured ones.
        warmup: u64,
        /// The far side of the last one, where it is known.
        server: Option<Peer>,
        /// The CPU of this side's loop.
        core: u32,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress::Connected { connections, warmup, server, core } = *self;
        write!(f, "connected ({}); ", counted(connections.into(), "connection"))?;
        match warmup {
            0 => f.write_str("measuring")?,
            _ => write!(f, "{} to warm up, then measuring", counted(warmup, "message"))?,
        }
        match server {
            Some(Peer::Process { pid, .. }) if has_thread_on(pid, core) => write!(
                f,
                "\nwarning: process {pid} is pinned to CPU {core} as well: each waits while the other runs, \
                 for milliseconds; give one of them another --core"
            ),
            _ => Ok(()),
        }
    }
}

/// Whether a thread of process `pid` may run on CPU `cpu` and no other. `false` also where that cannot be seen.
fn has_thread_on(pid: u32, cpu: u32) -> bool {
    let allowed = |status: &str| {
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.is_some_and(|list| list.trim() == cpu.to_string())
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| thread.path().join("status"))
        .any(|path| fs::read_to_string(path).is_ok_and(|text| allowed(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinwire_linux::cpu::{AllowedCpus, pin_current};

    fn connected(server: Option<Peer>, core: u32) -> String {
        Progress::Connected { connections: 1, warmup: 1_000, server, core }.to_string()
    }

    #[test]
    fn two_loops_on_one_cpu_are_told() {
        assert_eq!(connected(None, 0), "connected (1 connection); 1,000 messages to warm up, then measuring");
        let allowed = AllowedCpus::snapshot().unwrap();
        let cpu = allowed.as_slice()[0];
        let process = Peer::Process { pid: std::process::id(), uid: 0 };
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let pinned = std::thread::spawn(move || {
            ready.send(pin_current(&allowed, cpu).is_ok()).unwrap();
            let _ = ended.recv();
        });
        assert!(is_ready.recv().unwrap());
        let text = connected(Some(process), cpu);
        assert!(text.contains(&format!("is pinned to CPU {cpu} as well")), "{text}");
        assert!(!connected(Some(process), 8_191).contains("warning"));
        drop(end);
        pinned.join().unwrap();
    }
}
