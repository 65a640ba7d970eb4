//! One subcommand, one file.

pub mod echo;
