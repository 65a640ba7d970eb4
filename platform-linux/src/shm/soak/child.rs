//! A process that plays a scene, and what it says.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child as Process, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::scene::SCENE;
use crate::clock;

/// Longer than anything here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Killed, by its id, when its handle goes.
pub(super) struct Child {
    process: Process,
    lines: Receiver<String>,
    pub(super) seen: Vec<String>,
}

/// What a process holds: open files, mappings, and resident memory in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) files: usize,
    pub(super) mappings: usize,
    pub(super) resident_kib: u64,
}

impl Child {
    /// This program again, playing `scene`.
    pub(super) fn play(scene: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "shm::soak::scene::scene", "--ignored", "--nocapture"]).env(SCENE, scene);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // SAFETY: one call that may be made between fork and exec: the scene ends with the test that plays it.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut process = command.spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { process, lines, seen: Vec::new() }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The rest of the next line that has `part`, from there on.
    #[track_caller]
    pub(super) fn wait_for(&mut self, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if let Some(at) = line.find(part) {
                        return line[at..].to_owned();
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no {part:?} in {PATIENCE:?}:\n{}", self.seen.join("\n")),
                Err(RecvTimeoutError::Disconnected) => panic!("ended without {part:?}:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Everything said so far.
    pub(super) fn said(&mut self) -> &[String] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Sends a signal, and tells the time just before in nanoseconds, which is the same in all processes.
    pub(super) fn signal(&self, signal: libc::c_int) -> u64 {
        let before = clock::now().as_nanos();
        // SAFETY: a signal to a child that was not waited for yet, so the id is its own.
        assert_eq!(unsafe { libc::kill(self.pid() as libc::pid_t, signal) }, 0);
        before
    }

    /// The least it holds within a while: one that tries to connect has a socket more now and then.
    pub(super) fn at_rest(&self) -> Holding {
        let looks = (0..50).map(|_| {
            thread::sleep(Duration::from_millis(1));
            self.holding()
        });
        looks.min_by_key(|holding| (holding.files, holding.mappings)).expect("there was a look")
    }

    fn holding(&self) -> Holding {
        let proc = |file: &str| format!("/proc/{}/{file}", self.pid());
        let status = fs::read_to_string(proc("status")).unwrap();
        let kib = |key| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        Holding {
            files: fs::read_dir(proc("fd")).unwrap().count(),
            mappings: fs::read_to_string(proc("maps")).unwrap().lines().filter(|line| line.contains("memfd:")).count(),
            // Not the pages of the program itself, which come in as they are needed.
            resident_kib: kib("RssAnon:") + kib("RssShmem:"),
        }
    }

    /// Waits until it holds as many files and mappings as `before`.
    #[track_caller]
    pub(super) fn settles_at(&self, before: Holding) -> Holding {
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            let now = self.holding();
            if (now.files, now.mappings) == (before.files, before.mappings) {
                return now;
            }
            assert!(Instant::now() < deadline, "{before:?} became {now:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Nothing to do for one that has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
