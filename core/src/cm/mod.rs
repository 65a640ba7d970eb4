//! The connection manager's half that decides: events in, transitions looked up, actions out.

pub mod event;
pub mod hello;
pub mod reason;
pub mod retry;
pub mod state;
pub mod table;
