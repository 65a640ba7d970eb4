//! The command `spinwire`.
#![deny(unsafe_code)]

mod cmd;

use std::io::{IsTerminal, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use spinwire::args::{Cli, Command};
use spinwire::{exit, patience};

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(Cli { command: Command::Echo(command) }) => exit::code(cmd::echo::run(command)),
        Err(answer) => say(&answer),
    }
}

/// Help, or what is wrong with the arguments.
fn say(answer: &clap::Error) -> ExitCode {
    let (text, is_terminal) =
        (answer.render(), if answer.use_stderr() { stderr().is_terminal() } else { stdout().is_terminal() });
    let text = if is_terminal { text.ansi().to_string() } else { text.to_string() };
    // If it cannot be written, there is nobody to tell.
    let _ = if answer.use_stderr() { patience::write(text, stderr()) } else { patience::write(text, stdout()) };
    ExitCode::from(answer.exit_code() as u8)
}
