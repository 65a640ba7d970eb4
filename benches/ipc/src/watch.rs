//! Nothing hangs: two processes that spin for each other are ended when one is gone, or when a window takes too long.

use std::process::{self, Child};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What is under way, and since when.
type Now = Mutex<Option<(Instant, String)>>;

/// A thread that looks after the answering process.
pub struct Watch(Arc<Now>);

/// Something is under way as long as this lives.
pub struct Busy<'a>(&'a Now);

impl Watch {
    /// Over `child`, for as long as this process lives. To be made before this process is pinned.
    pub fn over(mut child: Child) -> Self {
        let now = Arc::new(Now::default());
        let seen = now.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(EVERY);
                let under_way = lock(&seen).clone();
                let Some((since, what)) = under_way else { continue };
                if let Ok(Some(status)) = child.try_wait() {
                    give_up(&format!("the answering process ended ({status}) during: {what}"));
                }
                if since.elapsed() > LIMIT {
                    // It may be gone just now.
                    _ = child.kill();
                    give_up(&format!("no end after {LIMIT:?}: {what}"));
                }
            }
        });
        Watch(now)
    }

    /// `what` begins.
    pub fn busy(&self, what: &str) -> Busy<'_> {
        *lock(&self.0) = Some((Instant::now(), what.to_owned()));
        Busy(&self.0)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

fn lock(now: &Now) -> MutexGuard<'_, Option<(Instant, String)>> {
    now.lock().unwrap_or_else(PoisonError::into_inner)
}

fn give_up(why: &str) -> ! {
    eprintln!("ipc: {why}");
    process::exit(2)
}

const EVERY: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(30);
