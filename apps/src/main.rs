//! The command `spinwire`.
#![deny(unsafe_code)]

mod cmd;

use std::process::ExitCode;

use clap::Parser;
use spinwire::args::{Cli, Command};
use spinwire::exit;

fn main() -> ExitCode {
    let Command::Echo(command) = Cli::parse().command;
    exit::code(cmd::echo::run(command))
}
