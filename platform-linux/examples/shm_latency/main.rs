//! What a whole echo over shared memory costs beside a bare cache line passed back and forth between the same two cores, and
//! beside the fabric without an engine.
//!
//! ```sh
//! cargo run --release -p spinwire-linux --example shm_latency            # CPUs 0 and 1, messages of 64 bytes
//! cargo run --release -p spinwire-linux --example shm_latency -- 2 3 56  # these CPUs, messages of 56 bytes
//! ```
//!
//! Two processes. Three contestants take turns in windows of about 1 ms: two lines of memory that one process writes and the
//! other polls (bare), posts and polls of the fabric (transport), and two engines with their loops and handlers (echo). The first
//! two pause between polls, without which a line is taken from the other side while it is written: on CPUs far apart a bare
//! round trip took half as long again.
//!
//! On a virtual machine two cores can be two threads of one core in the next moment, and then everything looks six times
//! faster: only windows are counted whose bare windows before and after agree within a tenth with each other and within a fifth
//! with what is usual in this run. Other programs that get a CPU within a window are in its figure: on a machine that has
//! other work, `chrt -f 50` in front keeps them out for the few seconds that it takes.
//!
//! The figure of a window is its length divided by its round trips; in a part of the windows each trip is stamped, at the cost
//! of a look at the clock, for the percentiles. Ratios are those of windows to their neighbours; the median of each of seven
//! passes is taken, and of these the median.

mod answer;
mod side;
mod statistics;

use std::process::{Child, Command};

use side::{Asker, Contestant, Fault, Place};
use spinwire_linux::clock;
use statistics::Table;

/// Passes, of which the median counts.
const PASSES: usize = 7;
/// Windows of each contestant in a pass.
const ROUNDS: usize = 30;

fn main() {
    if let Err(error) = run() {
        eprintln!("shm_latency: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, place @ ..] = &arguments[..]
        && role == ANSWER
    {
        return answer::answer(&Place::read(place)?);
    }
    let number = |n: usize, default: &str| arguments.get(n).map_or(default, String::as_str).to_owned();
    let name = format!("shm://latency-{}", std::process::id());
    let (first, second, bytes) = (number(0, "0"), number(1, "1"), number(2, "64"));
    let answering = [first.clone(), bytes.clone(), name.clone()];
    let place = Place::read(&[second.clone(), bytes.clone(), name])?;
    let _answerer = Answerer(Command::new(std::env::current_exe()?).arg(ANSWER).args(&answering).spawn()?);
    let table = side::with_asker(&place, measure)?;
    println!("CPUs {first} and {second}, {bytes} bytes, two processes, {PASSES} passes");
    println!("{table}");
    Ok(())
}

/// The first argument of the other process.
const ANSWER: &str = "answer";

/// The other process, which does not outlive this one.
struct Answerer(Child);

impl Drop for Answerer {
    fn drop(&mut self) {
        // It has ended by itself, unless something went wrong.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(asker: &mut Asker<'_, '_>) -> Result<Table, Fault> {
    let mut table = Table::default();
    for _ in 0..PASSES {
        let mut before = asker.window(Contestant::Bare, None)?;
        for round in 0..ROUNDS {
            // In turn, so that none has always the same one before it.
            for turn in 0..2 {
                let contestant = [Contestant::Transport, Contestant::Echo][(round + turn) % 2];
                let figure = asker.window(contestant, None)?;
                let after = asker.window(Contestant::Bare, None)?;
                table.add(contestant, figure, (before, after));
                before = after;
            }
            if round % 3 == 0 {
                for contestant in [Contestant::Bare, Contestant::Transport, Contestant::Echo] {
                    asker.window(contestant, Some(clock::now))?;
                    let trips = asker.trips().clone();
                    let after = asker.window(Contestant::Bare, None)?;
                    table.add_trips(contestant, &trips, (before, after));
                    before = after;
                }
            }
        }
        table.end_pass();
    }
    Ok(table)
}
