//! The answering process: does what it is told on its standard input, and says on its standard output how it went.
//!
//! | line | what it does | what it says |
//! |---|---|---|
//! | `open WHICH NAME BYTES DEPTH TAG` | as number `WHICH` listens, says so, accepts, says so | `ready`, `up`; or `failed REASON` |
//! | `trips WHICH WINDOW` | a window of round trips, with number `WHICH` | |
//! | `stream WHICH WINDOW WARM TIMES` | a window of a stream | |
//! | `check WINDOW WHICH` | only the check of the placement before (0) or after (1) a window | |
//! | `close` | lets go of everything that is open | `closed` |

use std::io::{BufRead, stdin};

use rustix::process::{Signal, set_parent_process_death_signal};
use spinwire_benches::cores::Cores;
use spinwire_benches::ping_pong::CHECK;
use spinwire_benches::window::{involuntary_switches, undisturbed};

use crate::peer::{Answer, Failure, Job};
use crate::peers;
use crate::sys::Board;

/// Steps at which both sides meet in a window.
pub const STEPS: u64 = 4;

/// Runs until its standard input ends.
///
/// # Errors
/// What cannot be told to the asking process.
pub fn run(descriptor: &str, priority: bool) -> Result<(), Failure> {
    // A loop that spins for a process that is no more would spin for ever.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let cores = Cores::named()?;
    cores.pin(1);
    let mut side = Side { board: Board::open(descriptor)?, open: Vec::new(), cpu: cores.id(1) as u32 };
    if priority {
        undisturbed();
    }
    for line in stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>();
        match words[0] {
            "open" => {
                let (bytes, depth, tag) = (number(3)? as usize, number(4)? as u32, words[5].to_owned());
                let job = Job { bytes, depth, tag, cpu: side.cpu, board: side.board };
                side.open(number(1)? as usize, words[2], &job);
            }
            "trips" => {
                let window = number(2)?;
                side.window(window, number(1)? as usize, |answer, _| answer.echo(window));
            }
            "stream" => {
                let (warm, times) = (number(3)?, number(4)?);
                side.window(number(2)?, number(1)? as usize, |answer, board| {
                    for part in [warm, times] {
                        answer.drain(part);
                        board.taken.set(board.taken.get() + part);
                    }
                });
            }
            "check" => side.board.check(number(1)?, number(2)? as usize),
            "close" => {
                side.open.clear();
                println!("closed");
            }
            other => return Err(format!("there is no '{other}'").into()),
        }
    }
    Ok(())
}

struct Side {
    board: &'static Board,
    open: Vec<Box<dyn Answer>>,
    cpu: u32,
}

impl Side {
    fn open(&mut self, which: usize, name: &str, job: &Job) {
        // What the other side could not open is not kept here either.
        self.open.truncate(which);
        match try_open(name, job) {
            Ok(answer) => {
                self.open.push(answer);
                println!("up");
            }
            Err(why) => println!("failed {}", why.to_string().replace('\n', " ")),
        }
    }

    fn window(&mut self, window: u64, which: usize, work: impl FnOnce(&mut dyn Answer, &Board)) {
        for answer in &mut self.open {
            answer.tick();
        }
        let board = self.board;
        board.check(window, 0);
        let before = involuntary_switches();
        board.meet_answering(window * STEPS + 2);
        work(&mut *self.open[which], board);
        board.switched.set(u64::from(involuntary_switches() != before));
        board.meet_answering(window * STEPS + 3);
        board.check(window, 1);
    }
}

fn try_open(name: &str, job: &Job) -> Result<Box<dyn Answer>, Failure> {
    let peer = peers::ALL.iter().find(|peer| peer.name == name).ok_or("there is no such contestant")?;
    let mut answer = (peer.answer)(job)?;
    println!("ready");
    answer.accept()?;
    Ok(answer)
}

impl Board {
    /// The serving side of a check of the placement: the first of a window, or the second.
    fn check(&self, window: u64, which: usize) {
        self.meet_answering(window * STEPS + 1 + 3 * which as u64);
        self.checks[which].serve(window * CHECK, CHECK);
    }
}
