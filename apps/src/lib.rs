//! What the `spinwire` command is made of: reading its arguments, driving load, measuring, reporting.
//!
//! The command itself only puts these together with `spinwire-linux`; every part here is plain code that is tested
//! without RDMA.
#![deny(unsafe_code)]

mod advice;
pub mod args;
pub mod echo;
pub mod exit;
mod help;
pub mod histogram;
pub mod load;
pub mod log;
pub mod measure;
pub mod outcome;
pub mod patience;
pub mod pattern;
pub mod ping;
pub mod plan;
pub mod progress;
pub mod reason;
pub mod report;
pub mod units;
pub mod window;
