//! The simulator: engines in one process over a seeded network on virtual time, with whatever can go wrong.
//!
//! Whatever an engine asks of the network is checked against what librdmacm and libibverbs need: what would be a crash
//! or a corrupted buffer there is a panic here. The same seed always gives the same run.
//!
//! | module | job |
//! |---|---|
//! | `net`, `host` | what is under way; machines and ids |
//! | `cm`, `control` | the connection manager, and an engine's way to it |
//! | `qp`, `link`, `cq`, `fabric` | queue pairs, messages on the wire, completions, and an engine's way to them |
//! | `one_sided` | operations on the memory that machines expose |
//! | `memory`, `space` | lent buffers as a device sees them; the memory of an engine |
//! | `world`, `check` | drives the engines, and checks every sum after every turn |
//! | `app`, `plan`, `ending`, `operations` | an application that notices when a message is lost, doubled or changed, or an operation is |
//! | `witness` | writes down what an engine was shown, and judges the reasons it reports |
//! | `faults`, `trouble`, `random` | what goes wrong how often, and what happens at once, from a seed |
//! | `scenario`, `run` | what a seed means, and running it |
//! | `record`, `coverage` | the story of a run, and what it met |

mod app;
mod check;
mod cm;
mod control;
mod coverage;
mod cq;
mod ending;
mod fabric;
mod faults;
mod host;
mod link;
mod memory;
mod net;
mod one_sided;
mod operations;
mod plan;
mod qp;
mod random;
pub(crate) mod record;
mod run;
mod scenario;
mod space;
mod story;
mod trouble;
mod witness;
mod world;

pub use app::App;
pub use cm::bare;
pub use control::SimControl;
pub use coverage::{Coverage, Fault};
pub use cq::Cqe;
pub use fabric::SimFabric;
pub use faults::Faults;
pub use host::{End, Host, Phase, call_of};
pub use memory::{BufferName, DeviceMemory};
pub use net::{Due, Net, Wire};
pub use plan::{Book, Plan, Style, View};
pub use qp::{Flight, Qp, QpState};
pub use random::Random;
pub use record::Trace;
pub use run::{Failure, replay, run};
pub use scenario::Scenario;
pub use space::{Space, config, spaces};
pub use world::{Node, World};

/// Milliseconds in nanoseconds.
pub const MS: u64 = 1_000_000;

/// Two engines on a network without faults: node 0 connects, node 1 listens.
pub fn pair(spaces: &mut [Space], seed: u64, client: Plan, server: Plan) -> World<'_, App> {
    let book = Book::default();
    World::new((seed, Faults::default()), spaces, &[1], |node, net| {
        App::new(node, net, &book, if node == 1 { server } else { client })
    })
}
