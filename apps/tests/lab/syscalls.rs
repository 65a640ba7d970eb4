//! Counts system calls inside the kernel.
//!
//! A histogram trigger on the tracepoints `raw_syscalls:sys_enter` and `syscalls:sys_enter_write` counts every call of
//! every thread, by call and by file descriptor. Unlike strace it stops nobody and loses nothing, so 100,000 echoes take
//! what they take without it, and the counts are exact.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// write(2) on x86-64; the lab is x86-64 only.
pub const WRITE: u64 = 1;

/// Counts from its start to its drop.
pub struct Counter(());

/// Calls per thread so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// (thread, call number) -> calls.
    pub by_call: BTreeMap<(u32, u64), u64>,
    /// (thread, file descriptor) -> writes.
    pub writes_by_fd: BTreeMap<(u32, u64), u64>,
}

const TRACING: &str = "/sys/kernel/tracing/events";
const CALLS: (&str, &str) = ("raw_syscalls/sys_enter", "hist:keys=common_pid,id:size=8192");
const WRITES: (&str, &str) = ("syscalls/sys_enter_write", "hist:keys=common_pid,fd:size=8192");

impl Counter {
    /// Starts to count.
    pub fn start() -> Self {
        for (event, histogram) in [CALLS, WRITES] {
            set(event, histogram);
        }
        Self(())
    }

    /// The counts so far.
    pub fn calls(&self) -> Calls {
        Calls { by_call: read(CALLS.0, "id"), writes_by_fd: read(WRITES.0, "fd") }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        for (event, histogram) in [CALLS, WRITES] {
            set(event, &format!("!{histogram}"));
        }
    }
}

impl Calls {
    /// What one thread called since `before`, without the calls it did not make.
    pub fn of_thread_since(&self, before: &Calls, thread: u32) -> BTreeMap<u64, u64> {
        difference(&self.by_call, &before.by_call, thread)
    }

    /// The file descriptors one thread wrote to since `before`.
    pub fn writes_of_thread_since(&self, before: &Calls, thread: u32) -> BTreeMap<u64, u64> {
        difference(&self.writes_by_fd, &before.writes_by_fd, thread)
    }
}

type Counts = BTreeMap<(u32, u64), u64>;

fn difference(now: &Counts, before: &Counts, thread: u32) -> BTreeMap<u64, u64> {
    let of_thread = now.range((thread, 0)..=(thread, u64::MAX));
    let grown = of_thread.map(|(key, count)| (key.1, count - before.get(key).copied().unwrap_or(0)));
    grown.filter(|(_, count)| *count > 0).collect()
}

/// Threads of a process.
pub fn threads(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is ours");
    tasks.map(|task| task.expect("is listed").file_name().to_string_lossy().parse().expect("a number")).collect()
}

/// What a file descriptor of a process is.
pub fn file_of(pid: u32, fd: u64) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default()
}

fn set(event: &str, trigger: &str) {
    let path = format!("{TRACING}/{event}/trigger");
    fs::write(&path, trigger).unwrap_or_else(|error| panic!("{path}: {error}; the kernel needs CONFIG_HIST_TRIGGERS"));
}

fn read(event: &str, key: &str) -> Counts {
    let text = fs::read_to_string(format!("{TRACING}/{event}/hist")).expect("the trigger is set");
    let mut counts = Counts::new();
    for line in text.lines() {
        // { common_pid:        194, id:          1 } hitcount:      20051
        let numbers: Vec<u64> =
            line.split_whitespace().filter_map(|word| word.trim_end_matches(',').parse().ok()).collect();
        match numbers[..] {
            [thread, of, count] if line.contains(key) => {
                counts.insert((thread as u32, of), count);
            }
            [dropped] if line.contains("Dropped:") => assert_eq!(dropped, 0, "the histogram is too small"),
            _ => {}
        }
    }
    assert!(text.contains("Totals:"), "cannot read this histogram:\n{text}");
    counts
}
