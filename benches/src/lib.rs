//! How Spinwire is measured: side by side with its peers, in one run, in short windows whose order rotates.
//!
//! Numbers without their machine mean nothing, and on virtual machines only ratios taken inside one run carry over. So
//! every bench is a list of contests, each contest has several contestants, ours first, and two things can be made of it:
//!
//! | command | what it gives |
//! |---|---|
//! | `cargo bench -p spinwire-benches --bench NAME` | criterion's estimate for each contestant by itself |
//! | `cargo bench -p spinwire-benches --bench NAME -- --compare` | the table of ratios, and which limits hold |
//!
//! A bench is a `main` that names its contests. This is all of one:
//!
//! ```
//! use std::hint::black_box;
//! use std::process::ExitCode;
//!
//! use spinwire_benches::{Contestant, limits};
//!
//! fn main() -> ExitCode {
//!     spinwire_benches::main("sum", |run| {
//!         let items: Vec<u64> = (0..1024).collect();
//!         let (mut ours, mut theirs) = (0, 0);
//!         // Each does its work that many times. What it uses is made before, outside of what is timed.
//!         run.single(
//!             "sum/1024",
//!             &[limits::time_at_most(1.0, "fold")],
//!             &mut [
//!                 Contestant::new("spinwire", |times| {
//!                     for _ in 0..times {
//!                         ours += black_box(&items).iter().sum::<u64>();
//!                     }
//!                 }),
//!                 Contestant::new("fold", |times| {
//!                     for _ in 0..times {
//!                         theirs += black_box(&items).iter().fold(0, |sum, item| sum + item);
//!                     }
//!                 }),
//!             ],
//!         );
//!     })
//! }
//! ```
//!
//! | module | job |
//! |---|---|
//! | [`cores`] | the CPUs by name, and the machine in a line |
//! | [`window`] | a short stretch of measuring, and when it does not count |
//! | [`gate`] | where the threads of a window meet |
//! | [`contest`] | rounds and passes in rotating order, medians |
//! | [`limits`] | what Spinwire has to reach, in one place |
//! | [`null`] | the core's loop over a fabric that does nothing |
//! | [`ping_pong`] | the bare cache line |
//! | [`report`] | the table of a contest, and the same as JSON |
//! | [`summary`] | all contests of a run in one look |
//! | [`rings`] | rings as contestants |
//! | [`dpdk`] | DPDK's ring and pool, where they are installed |
//! | [`run`] | what is done with a contest, as the arguments say: compare, criterion, or a test |
#![deny(unsafe_code)]

mod arguments;
pub mod contest;
pub mod cores;
pub mod gate;
pub mod limits;
pub mod null;
pub mod ping_pong;
pub mod report;
pub mod rings;
pub mod run;
pub mod summary;
pub mod window;

#[allow(unsafe_code)]
mod sys;

pub use contest::{Contestant, Sample};
pub use cores::Cores;
pub use run::{Run, main};
pub use sys::dpdk;
