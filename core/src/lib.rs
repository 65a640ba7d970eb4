//! The deciding half of Spinwire: no operating system, no allocator, no clock.
//!
//! Events come in, actions go out; time is an argument, memory is handed in. The same code runs over verbs, over
//! shared memory and under a simulator.
//!
//! An application implements [`turn::Handler`] and is handed a [`turn::Cx`] to send, connect and close with; what a
//! connection ended with is a [`cm::reason::CloseReport`]. The loop that calls it comes from a platform: on Linux from
//! `spinwire-linux`, whose front page has a whole program. Who brings a platform of their own implements the two seams in
//! [`fabric`], hands a [`turn::Engine`] its memory, and calls [`turn::Engine::turn`] again and again.
//!
//! | module | job |
//! |---|---|
//! | [`config`] | every limit, with its reason |
//! | [`time`], [`id`] | stamps, handles and work ids |
//! | [`ring`], [`sync`] | queues between threads or processes, over given memory |
//! | [`pool`], [`conn`] | buffers and connections over given memory |
//! | [`cm`] | the connection state machine as a table |
//! | [`fabric`] | the seams to a platform: data path and connection path |
//! | [`remote`] | memory of a peer's that one-sided operations reach |
//! | [`turn`] | one turn of the loop, generic over the seams and the application's handler |
//! | [`timer`] | deadlines, keepalive and retries of all connections: a timer wheel over given memory |
//! | [`stats`], [`histogram`] | counters of an engine, and of latencies |
//! | `sim` | with the feature `sim`: engines on a seeded network on virtual time, with faults |
#![no_std]
#![deny(unsafe_code)]

#[cfg(feature = "sim")]
extern crate std;

pub mod cm;
pub mod config;
pub mod conn;
pub mod fabric;
pub mod histogram;
pub mod id;
pub mod pool;
pub mod remote;
pub mod ring;
#[cfg(feature = "sim")]
pub mod sim;
pub mod stats;
pub mod sync;
pub mod time;
pub mod timer;
pub mod turn;

#[cfg(test)]
mod testing;
