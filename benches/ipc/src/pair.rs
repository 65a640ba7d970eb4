//! The asking process's hold on the answering one: opens contestants in both, and runs windows.

use std::cell::{Cell, RefCell};
use std::env;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use spinwire_benches::Sample;
use spinwire_benches::cores::Cores;
use spinwire_benches::ping_pong::CHECK;
use spinwire_benches::window::{Dropped, Pinned, involuntary_switches};

use crate::answer::STEPS;
use crate::peer::{Ask, Failure, Job, Peer, Trips};
use crate::sys::Board;
use crate::watch::Watch;

/// Both processes.
pub struct Pair {
    board: &'static Board,
    orders: RefCell<ChildStdin>,
    replies: RefCell<BufReader<ChildStdout>>,
    watch: Watch,
    window: Cell<u64>,
    open: RefCell<Vec<Box<dyn Ask>>>,
    cores: Cores,
}

impl Pair {
    /// Starts the answering process. To be called before this one is pinned, because that is inherited.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn start(cores: &Cores, priority: bool) -> Result<Self, Failure> {
        let (board, fd) = Board::make()?;
        let mut child = Command::new(env::current_exe()?)
            .args(["--answer", &fd.as_raw_fd().to_string(), if priority { "priority" } else { "plain" }])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the answering process has no pipes".into());
        };
        Ok(Pair {
            board,
            orders: RefCell::new(orders),
            replies: RefCell::new(BufReader::new(replies)),
            watch: Watch::over(child),
            window: Cell::new(0),
            open: RefCell::default(),
            cores: cores.clone(),
        })
    }

    /// The CPUs: this process's is the first, the other's the second.
    pub fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Opens a contestant on both sides. The number is for [`Pair::trips`] and [`Pair::stream`].
    ///
    /// # Errors
    /// Why it cannot take part.
    pub fn open(&self, peer: &Peer, bytes: usize, depth: u32) -> Result<usize, Failure> {
        let which = self.open.borrow().len();
        let tag = format!("{}-{}-{which}-{bytes}", std::process::id(), self.window.get());
        let _busy = self.watch.busy(&format!("setting up {}", peer.name));
        self.order(format_args!("open {which} {} {bytes} {depth} {tag}", peer.name))?;
        self.reply("ready")?;
        let ask = (peer.ask)(&Job { bytes, depth, tag, cpu: self.cores.id(0) as u32, board: self.board });
        // Also after a failure, so that the next reply is the next order's.
        let up = self.reply("up");
        let ask = ask?;
        up?;
        self.open.borrow_mut().push(ask);
        Ok(which)
    }

    /// Lets go of all contestants on both sides.
    ///
    /// # Errors
    /// The answering process is gone.
    pub fn close(&self) -> Result<(), Failure> {
        let _busy = self.watch.busy("letting go of all contestants");
        self.order("close")?;
        self.reply("closed")?;
        self.open.borrow_mut().clear();
        Ok(())
    }

    /// One window of round trips: their percentiles and their mean.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn trips(&self, pinned: &Pinned, which: usize, times: u64) -> Result<Sample, Dropped> {
        // Fewer have no 99.9th percentile.
        let times = times.max(TRIPS_MIN);
        let window = self.next();
        let (mut warm, mut trips) = (Trips::new(WARM), Trips::new(times));
        let elapsed = self.window(pinned, window, format_args!("trips {which} {window}"), || {
            let ask = &mut self.open.borrow_mut()[which];
            ask.trips(&mut warm);
            trips.start();
            let start = Instant::now();
            ask.trips(&mut trips);
            let elapsed = start.elapsed();
            self.board.over.set(window);
            elapsed
        })?;
        let mut sample = Sample::percentiles_and_tail(elapsed, trips.ticks);
        sample.ns.push(elapsed.as_nanos() as f64 / times as f64);
        Ok(sample)
    }

    /// One window of a stream: the time for one message.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn stream(&self, pinned: &Pinned, which: usize, times: u64) -> Result<Sample, Dropped> {
        let window = self.next();
        let most = self.open.borrow()[which].stream_max();
        let warm = (times / 8 + 1).min(most / 8 + 1);
        let times = times.min(most - warm);
        let order = format_args!("stream {which} {window} {warm} {times}").to_string();
        let elapsed = self.window(pinned, window, order, || {
            let ask = &mut self.open.borrow_mut()[which];
            let before = self.board.taken.get();
            ask.stream(warm, before + warm);
            let start = Instant::now();
            ask.stream(times, before + warm + times);
            start.elapsed()
        })?;
        Ok(Sample::per_item(elapsed, times))
    }

    /// A window of other programs: `work` runs between two checks of the placement, while the answering process sleeps. It gives
    /// nothing if they failed.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn apart(&self, pinned: &Pinned, work: impl FnOnce() -> Option<Sample>) -> Result<Sample, Dropped> {
        let window = self.next();
        let _busy = self.watch.busy("running other programs");
        self.send(format_args!("check {window} 0"));
        let before = self.check(window, 0);
        let sample = work();
        self.send(format_args!("check {window} 1"));
        let after = self.check(window, 1);
        match sample {
            None => Err(Dropped::Failed),
            Some(sample) if pinned.is_usual(before) && pinned.is_usual(after) => Ok(sample),
            Some(_) => Err(Dropped::Moved),
        }
    }

    fn window(
        &self,
        pinned: &Pinned,
        window: u64,
        order: impl Display,
        work: impl FnOnce() -> Duration,
    ) -> Result<Duration, Dropped> {
        for ask in &mut *self.open.borrow_mut() {
            ask.tick();
        }
        let _busy = self.watch.busy(&order.to_string());
        self.send(&order);
        let before = self.check(window, 0);
        let switches = involuntary_switches();
        self.board.meet_asking(window * STEPS + 2);
        let elapsed = work();
        let switched = involuntary_switches() != switches;
        self.board.meet_asking(window * STEPS + 3);
        let switched = switched || self.board.switched.get() != 0;
        let after = self.check(window, 1);
        match switched {
            true => Err(Dropped::Switched),
            false if pinned.is_usual(before) && pinned.is_usual(after) => Ok(elapsed),
            false => Err(Dropped::Moved),
        }
    }

    /// The pinging side of a check of the placement, in ns.
    fn check(&self, window: u64, which: usize) -> f64 {
        self.board.meet_asking(window * STEPS + 1 + 3 * which as u64);
        self.board.checks[which].time_pings(window * CHECK, CHECK)
    }

    fn next(&self) -> u64 {
        self.window.set(self.window.get() + 1);
        self.window.get()
    }

    /// In the middle of a contest there is nobody to tell.
    fn send(&self, order: impl Display) {
        self.order(order).expect("the answering process takes orders");
    }

    fn order(&self, order: impl Display) -> Result<(), Failure> {
        Ok(writeln!(self.orders.borrow_mut(), "{order}")?)
    }

    fn reply(&self, wanted: &str) -> Result<(), Failure> {
        let mut line = String::new();
        self.replies.borrow_mut().read_line(&mut line)?;
        match line.trim_end() {
            reply if reply == wanted => Ok(()),
            "" => Err("the answering process is gone".into()),
            reply => Err(reply.strip_prefix("failed ").unwrap_or(reply).into()),
        }
    }
}

const WARM: u64 = 200;
const TRIPS_MIN: u64 = 2_000;
