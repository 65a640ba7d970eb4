//! The performing half of Spinwire: rdma_cm, verbs, hugepages and pinned cores on Linux.
//!
//! A program implements [`Handler`], sets a core up for an address, and runs the loop. A client that asks once:
//!
//! ```no_run
//! use spinwire_core::cm::reason::{CloseReason, CloseReport};
//! use spinwire_core::id::{ConnId, EndpointId};
//! use spinwire_core::turn::{Answer, Cx, Handler};
//! use spinwire_linux::address::Address;
//! use spinwire_linux::runtime::{AnySetup, Options};
//!
//! #[derive(Default)]
//! struct Client {
//!     ended: Option<CloseReport>,
//! }
//!
//! impl Handler for Client {
//!     fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
//!         cx.send(conn, b"are you there?").expect("a new connection has room for a message");
//!     }
//!
//!     fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
//!         println!("{}", message.escape_ascii());
//!         cx.close(conn);
//!         Answer::None
//!     }
//!
//!     fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
//!         self.ended = Some(*report);
//!     }
//! }
//!
//! let server: Address = "shm://echo".parse()?; // or "rdma://192.0.2.1:7471"
//! let mut setup = AnySetup::new(&Options::on_core(1), server.connect(None)?)?;
//! let mut reactor = setup.start()?;
//! let mut client = Client::default();
//! reactor.with(|cx| cx.connect(EndpointId(0)))?; // on_open follows, or on_close
//! reactor.run(&mut client, |client| client.ended.is_some())?;
//! match client.ended.map(|report| report.reason) {
//!     Some(CloseReason::Local) => {}
//!     Some(reason) => return Err(reason.into()),
//!     None => unreachable!("the loop runs until it has ended"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A server is shorter: [`runtime`] has one. Connections end by themselves only when the peer ends them:
//! [`AnyReactor::close`](runtime::AnyReactor::close) says goodbye to all before a program ends.
//!
//! | to | there is |
//! |---|---|
//! | listen, or name a server | [`Address::listen`](address::Address::listen), [`Address::connect`](address::Address::connect) |
//! | choose CPU, sizes, limits on waiting, memory pages | [`runtime::Options`]; [`cpu`] knows which CPUs there are |
//! | let peers in or not | [`Handler::on_request`]; over shared memory first [`shm::Users`] |
//! | send | [`Cx::send`], [`Cx::send_with`]; after `WouldBlock` [`Handler::on_writable`] says when to go on |
//! | receive, and answer at once | [`Handler::on_message`], [`Answer::InPlace`] |
//! | answer later | keep the [`ConnId`], and send in any later callback; [`Handler::on_turn`] comes in every turn |
//! | let peers read or write memory, and do so with theirs | [`AnySetup::expose`](runtime::AnySetup::expose), [`Cx::read`], [`Cx::write`] and their like |
//! | close, and learn why something ended | [`Cx::close`], [`Handler::on_close`] with a [`CloseReason`] |
//! | be stopped by a signal | [`signals::Stop`] |
//! | measure | [`AnyReactor::stats`](runtime::AnyReactor::stats), whose page says what explains a latency; [`histogram`] |
//! | know what goes wrong beside connections | [`AnyReactor::troubles`](runtime::AnyReactor::troubles) |
//! | use several cores | a thread for each, with a set-up of its own |
//!
//! [`Handler`]: spinwire_core::turn::Handler
//! [`Handler::on_request`]: spinwire_core::turn::Handler::on_request
//! [`Handler::on_writable`]: spinwire_core::turn::Handler::on_writable
//! [`Handler::on_message`]: spinwire_core::turn::Handler::on_message
//! [`Handler::on_turn`]: spinwire_core::turn::Handler::on_turn
//! [`Handler::on_close`]: spinwire_core::turn::Handler::on_close
//! [`Answer::InPlace`]: spinwire_core::turn::Answer::InPlace
//! [`Cx::send`]: spinwire_core::turn::Cx::send
//! [`Cx::send_with`]: spinwire_core::turn::Cx::send_with
//! [`Cx::read`]: spinwire_core::turn::Cx::read
//! [`Cx::write`]: spinwire_core::turn::Cx::write
//! [`Cx::close`]: spinwire_core::turn::Cx::close
//! [`ConnId`]: spinwire_core::id::ConnId
//! [`CloseReason`]: spinwire_core::cm::reason::CloseReason
//! [`histogram`]: spinwire_core::histogram
//!
//! Below [`runtime`], [`shm`] is the fabric between processes of one machine and [`readiness`] tells what waits on a descriptor
//! without a system call; with the feature `rdma`, `verbs` owns what the data path needs and `cm` what the connection path
//! needs. [`cpu`] pins threads, [`clock`] tells the time, and `sys` is the only module that names the C libraries. Objects
//! that depend on each other hold each other, so no order of dropping is wrong.
//!
//! Linux on x86-64; other 64-bit processors are not tried. What is used of the kernel came by 5.14; the lab's is 6.1. Where
//! io_uring is missing or not allowed, events are seen by poll(2).
#![deny(unsafe_code)]

pub mod address;
pub mod clock;
#[cfg(feature = "rdma")]
pub mod cm;
pub mod cpu;
#[allow(unsafe_code)]
pub mod mem;
pub mod readiness;
pub mod runtime;
#[allow(unsafe_code)]
pub mod shm;
pub mod signals;
#[allow(unsafe_code)]
mod sys;
#[cfg(feature = "rdma")]
#[allow(unsafe_code)]
pub mod verbs;
pub mod words;

#[cfg(feature = "rdma")]
pub use sys::os::failed_destroys;
pub use sys::os::{CallError, Errno};
