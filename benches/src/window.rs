//! A short stretch of measuring on known CPUs, and when it does not count.
//!
//! Two things spoil a measurement without a trace in its result. The kernel takes the CPU away in the middle; the
//! thread's count of involuntary switches tells. And a hypervisor moves the virtual CPUs, for a while onto two threads
//! of one real core, where a cache line costs a sixth and everything looks six times better; a bare ping-pong of a
//! cache line right before and right after tells.

use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::cores::Cores;
use crate::gate::{Gate, Meeting, Part, Seen};
use crate::ping_pong::{CHECK, PingPong};
use crate::sys;

/// How long a window should be. Longer ones are interrupted too often, shorter ones are all start and stop.
pub const LENGTH: Duration = Duration::from_millis(2);

/// Why a window does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The kernel took the CPU from a thread.
    Switched,
    /// The ping-pong before or after was not what is usual in this run: the CPUs are not where they were.
    Moved,
    /// The contestant could not be run.
    Failed,
}

/// Times `work` on the calling thread, which has to be pinned.
///
/// # Errors
/// [`Dropped::Switched`].
pub fn single(work: impl FnOnce()) -> Result<Duration, Dropped> {
    let before = sys::involuntary_switches();
    let start = Instant::now();
    work();
    let elapsed = start.elapsed();
    if sys::involuntary_switches() == before { Ok(elapsed) } else { Err(Dropped::Switched) }
}

/// Nanoseconds in a tick of [`ticks`]. Measured once, in 20 ms.
pub fn ns_per_tick() -> f64 {
    static FACTOR: OnceLock<f64> = OnceLock::new();
    *FACTOR.get_or_init(|| {
        let (start, from) = (Instant::now(), sys::ticks());
        thread::sleep(Duration::from_millis(20));
        start.elapsed().as_nanos() as f64 / (sys::ticks() - from) as f64
    })
}

pub use crate::sys::{involuntary_switches, ticks, undisturbed};

/// How far two CPUs are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Two threads of a core, or cores that share a near cache.
    Near,
    /// Separate cores that share none.
    Apart,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Near => "near",
            Place::Apart => "apart",
        })
    }
}

/// Several threads that work at once, on the first CPUs of a list.
pub struct Pinned {
    cores: Cores,
    /// Nanoseconds of a bare round trip that are usual in this run.
    usual_ns: f64,
}

/// What one thread of a window does, and on which CPU of the list.
pub struct Role<'a> {
    core: usize,
    work: Box<dyn FnOnce(&Gate<'_>) + Send + 'a>,
}

impl<'a> Role<'a> {
    /// `work` warms up as long as it likes, then calls [`Gate::start`]; what follows is measured.
    pub fn new(core: usize, work: impl FnOnce(&Gate<'_>) + Send + 'a) -> Self {
        Role { core, work: Box::new(work) }
    }
}

impl Pinned {
    /// Finds out how far apart the first two CPUs are: the median of many short ping-pongs.
    ///
    /// # Errors
    /// A sentence that says how many CPUs there are, if fewer than two.
    pub fn survey(cores: &Cores) -> Result<Self, String> {
        if cores.count() < 2 {
            return Err(format!("two CPUs are needed, there are these: {}", cores.names()));
        }
        let mut pinned = Pinned { cores: cores.clone(), usual_ns: f64::NAN };
        let mut seen: Vec<f64> = (0..SURVEY).map(|_| pinned.bare_ns()).collect();
        seen.sort_by(f64::total_cmp);
        pinned.usual_ns = seen[seen.len() / 2];
        Ok(pinned)
    }

    /// Nanoseconds of a bare round trip that are usual in this run.
    pub fn usual_ns(&self) -> f64 {
        self.usual_ns
    }

    /// Where the CPUs are. A line costs SMT siblings a few tens of nanoseconds.
    pub fn place(&self) -> Place {
        if self.usual_ns > NEAR_NS { Place::Apart } else { Place::Near }
    }

    /// That in a sentence.
    pub fn class(&self) -> String {
        let (names, place, ns) = (self.cores.names(), self.place(), self.usual_ns);
        format!("CPUs {names} are {place}: a bare round trip of a cache line takes {ns:.0} ns")
    }

    /// The number of CPUs, at least two.
    pub fn cores(&self) -> usize {
        self.cores.count()
    }

    /// Runs all roles at once and returns the time from the first start to the last stop. The first role has to be on
    /// another CPU than the last: between those two the placement is checked. Roles that share a CPU must expect to be
    /// switched, so for them that is no reason to drop the window.
    ///
    /// # Errors
    /// [`Dropped`], and why.
    ///
    /// # Panics
    /// A panic in a role ends the process, because the others would wait for it for ever.
    pub fn window(&self, roles: Vec<Role<'_>>) -> Result<Duration, Dropped> {
        let cores: Vec<usize> = roles.iter().map(|role| role.core).collect();
        assert!(cores.len() >= 2 && cores[0] != cores[cores.len() - 1], "first and last role share a CPU: {cores:?}");
        let shared = |core| cores.iter().filter(|&&other| other == core).count() > 1;
        let meeting = Meeting {
            arrived: AtomicU32::new(0),
            threads: roles.len() as u32,
            crowded: cores.iter().any(|&core| shared(core)),
            lines: [PingPong::default(), PingPong::default()],
        };
        let last = roles.len() - 1;
        // Nobody spins before everybody is on its own CPU: a new thread starts on its maker's, where it would have to
        // wait behind one that spins.
        let all_there = Barrier::new(roles.len());
        let seen: Vec<Seen> = thread::scope(|scope| {
            let threads: Vec<_> = roles
                .into_iter()
                .enumerate()
                .map(|(index, role)| {
                    let part = match index {
                        0 => Part::Pings,
                        _ if index == last => Part::Serves,
                        _ => Part::Waits,
                    };
                    let gate = Gate::new(&meeting, part);
                    let (all_there, shares) = (&all_there, shared(role.core));
                    scope.spawn(move || {
                        self.cores.pin(role.core);
                        // Those that share a CPU have to take turns there, which the first of two with priority would not.
                        if shares {
                            sys::in_turns()
                        } else {
                            _ = sys::undisturbed()
                        }
                        let _end = EndOnPanic;
                        all_there.wait();
                        gate.play(role.work)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a panic has ended the process")).collect()
        });
        if seen.iter().zip(&cores).any(|(seen, &core)| seen.switched && !shared(core)) {
            return Err(Dropped::Switched);
        }
        if seen[0].bare_ns.iter().any(|&ns| !self.is_usual(ns)) {
            return Err(Dropped::Moved);
        }
        let start = seen.iter().map(|seen| seen.start).min().expect("there are roles");
        let stop = seen.iter().map(|seen| seen.stop).max().expect("there are roles");
        Ok(stop - start)
    }

    /// Whether a bare round trip of `ns` is what it usually is in this run. SMT siblings and separate cores differ by a
    /// factor of five or more; noise does not reach the half of that.
    pub fn is_usual(&self, ns: f64) -> bool {
        ns > self.usual_ns / MOVED && ns < self.usual_ns * MOVED
    }

    fn bare_ns(&self) -> f64 {
        let (lines, all_there) = (PingPong::default(), Barrier::new(2));
        thread::scope(|scope| {
            let served = scope.spawn(|| {
                self.cores.pin(1);
                sys::undisturbed();
                all_there.wait();
                lines.serve(0, 2 * CHECK);
            });
            let pinged = scope.spawn(|| {
                self.cores.pin(0);
                sys::undisturbed();
                all_there.wait();
                lines.ping(0, CHECK, || ());
                lines.time_pings(CHECK, CHECK)
            });
            served.join().expect("it only waits for lines");
            pinged.join().expect("it only waits for lines")
        })
    }
}

/// The others spin for ever if one of them is gone.
struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::exit(101);
        }
    }
}

/// A bare round trip between CPUs that share a near cache takes less.
const NEAR_NS: f64 = 200.0;
/// Checks of a survey.
const SURVEY: usize = 101;
/// Beyond this factor from the usual, CPUs have moved.
const MOVED: f64 = 2.0;
