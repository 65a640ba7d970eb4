//! Loops that spin must not have a real-time policy: nothing else runs on their CPUs then, and here they have all of them.

use std::fs;

/// Refuses to go on under a real-time policy, which threads and child processes inherit: the threads that set connections up,
/// and on two CPUs the whole machine, would wait for loops that wait for them.
pub fn refuse() -> Result<(), String> {
    let stat =
        fs::read_to_string("/proc/thread-self/stat").map_err(|error| format!("/proc/thread-self/stat: {error}"))?;
    match policy(&stat) {
        None => Err("/proc/thread-self/stat names no scheduling policy".into()),
        Some(number) => match REAL_TIME.iter().find(|(policy, _)| *policy == number) {
            None => Ok(()),
            Some((_, name)) => Err(format!(
                "it runs under {name}, a real-time policy: its loops never rest, so nothing else would run on their CPUs, \
                 not even what they wait for; start it without chrt, or with `chrt --other 0`"
            )),
        },
    }
}

/// sched(7), by number.
const REAL_TIME: [(u32, &str); 3] = [(1, "SCHED_FIFO"), (2, "SCHED_RR"), (6, "SCHED_DEADLINE")];

/// Field 41 of proc_pid_stat(5). The second is a name in brackets that may hold anything.
fn policy(stat: &str) -> Option<u32> {
    let (_, from_third) = stat.rsplit_once(") ")?;
    from_third.split(' ').nth(41 - 3)?.parse().ok()
}
