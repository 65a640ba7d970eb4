//! What the kernel and a process hold, to see that it is given back.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// Counts of RDMA objects by device and kind, free hugepages included: `rxe0 qp` -> 1.
pub type Objects = BTreeMap<String, u64>;

/// A connection in TIMEWAIT keeps its cm_id for about 2 s, on a busy machine longer.
const SETTLE: Duration = Duration::from_secs(15);

/// The counts now.
pub fn objects() -> Objects {
    let output = Command::new("rdma").args(["resource", "show"]).output().expect("iproute2 has the rdma command");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && !text.trim().is_empty(), "rdma resource show: {output:?}");
    let mut counts = Objects::new();
    for line in text.lines() {
        // 0: rxe0: pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0 srq 0
        let words: Vec<&str> = line.split_whitespace().collect();
        let device = words[1].trim_end_matches(':');
        for pair in words[2..].chunks_exact(2) {
            counts.insert(format!("{device} {}", pair[0]), pair[1].parse().expect("a count"));
        }
    }
    counts.insert("free hugepages".to_owned(), hugepages_free());
    counts
}

/// Waits until the counts are again what they were; panics with the difference when they do not get there.
#[track_caller]
pub fn assert_back_to(before: &Objects) {
    let deadline = Instant::now() + SETTLE;
    loop {
        let now = objects();
        let changed: Vec<String> = before
            .iter()
            .filter(|(kind, count)| now.get(*kind) != Some(count))
            .map(|(kind, count)| format!("{kind}: {count} before, {:?} now", now.get(kind)))
            .collect();
        if changed.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "not given back within {SETTLE:?}: {}", changed.join("; "));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What the kernel and some processes hold at a moment when no connection is up.
pub struct Held<const N: usize> {
    objects: Objects,
    processes: [(u32, usize, u64); N],
}

impl<const N: usize> Held<N> {
    /// Waits until connections in TIMEWAIT are gone, then counts.
    pub fn by(pids: [u32; N]) -> Self {
        std::thread::sleep(Duration::from_secs(3));
        Self { objects: objects(), processes: pids.map(|pid| (pid, open_fds(pid), rss_kib(pid))) }
    }

    /// Checks that all is as it was, and that no process's resident memory grew by `slack_kib`.
    #[track_caller]
    pub fn assert_unchanged(&self, slack_kib: u64) {
        assert_back_to(&self.objects);
        for (pid, fds, rss) in self.processes {
            assert_eq!(open_fds(pid), fds, "open files of process {pid}");
            let now = rss_kib(pid);
            assert!(now < rss + slack_kib, "process {pid}: {rss} KiB resident before, {now} KiB now");
        }
    }
}

/// Free 2 MiB pages.
pub fn hugepages_free() -> u64 {
    field(&fs::read_to_string("/proc/meminfo").expect("proc is mounted"), "HugePages_Free:")
}

/// Open file descriptors of a process.
pub fn open_fds(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is ours").count()
}

/// Resident memory of a process in KiB.
pub fn rss_kib(pid: u32) -> u64 {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is ours"), "VmRSS:")
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no number in {line}"))
}
