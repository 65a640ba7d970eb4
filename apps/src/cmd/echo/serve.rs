//! `spinwire echo serve`.

use std::io::Write;
use std::path::Path;

use spinwire::args::ServeArgs;
use spinwire::echo::{EchoServer, Event};
use spinwire::exit::{self, Failure};
use spinwire::patience;
use spinwire::report::{Outputs, ServeReport};
use spinwire::units::{Grouped, counted};
use spinwire_linux::address::Address;
use spinwire_linux::clock;
use spinwire_linux::runtime::{AnyReactor, AnyRole, Options, SetupReport, ShmRole, Size};

use super::talk::Talk;

/// Lines about clients that may wait to be printed.
const LOG_LINES: usize = 1_024;

/// Runs the server.
///
/// # Errors
/// The status to end with, and what to say.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let outputs = Outputs::new(args.output.json.as_deref(), None)?;
    let defaults = super::options(&args.core)?;
    let options = Options {
        connections: args.connections_max,
        depth: args.depth.map_or(defaults.depth, Size::Asked),
        message_bytes_max: args.message_max,
        ..defaults
    };
    let role = match &args.listen {
        Address::Rdma(_) => {
            super::check_rdma(&args.core)?;
            args.listen.listen().map_err(Failure::setup)?
        }
        Address::Shm(name) => AnyRole::Shm(ShmRole::Listen(name.clone(), super::shm_users(&args.core, false)?)),
    };
    let talk = Talk::begin(args.output.quiet, LOG_LINES, output(args))?;
    let options = Options { stop: talk.stop.clone(), ..options };
    let mut setup = super::set_up(&options, role)?;
    serve(talk, args, setup.start().map_err(Failure::setup)?, outputs)
}

/// Runs the loop to its end, and reports.
fn serve(
    talk: Talk<Event>,
    args: &ServeArgs,
    mut reactor: AnyReactor<'_>,
    mut outputs: Outputs,
) -> Result<(), Failure> {
    let begun = clock::now();
    say_ready(reactor.report(), output(args));
    let mut server = EchoServer::new(args.connections_max, talk.stop, talk.log);
    let mut ran = Ok(());
    while ran.is_ok() && !server.is_stopping() {
        ran = reactor.run(&mut server, EchoServer::wants_out);
        server.look_at(reactor.troubles());
    }
    let ended = ran.and_then(|()| reactor.close(&mut server)).map_err(|error| error.to_string());
    let troubles = reactor.troubles();
    let ended = ended.and_then(|()| server.into_result().map_err(|lost| lost.to_string()));
    if let Some(printer) = talk.printer {
        printer.finish();
    }
    let elapsed = clock::now().since(begun);
    let listening = reactor.report().listening.clone().unwrap_or_default();
    let report = ServeReport::new(listening, ended.clone().err(), elapsed, reactor.stats(), reactor.report());
    let printed = outputs.print(&report.with_troubles(troubles), args.output.quiet);
    exit::first(ended.map_err(Failure::run), [printed])
}

/// Tells that clients can connect, and what was set up. Scripts wait for this line, so it is also printed when quiet.
fn say_ready(report: &SetupReport, out: impl Write + Send + 'static) {
    let Some(address) = &report.listening else { return };
    let text = format!(
        "listening on {address} ({}, core {}, up to {}, depth {}, messages up to {})\n",
        report.fabric.short_words(),
        report.cpu.cpu,
        counted(report.connections.into(), "connection"),
        Grouped(report.config.depth.into()),
        counted(report.config.message_bytes_max.into(), "byte"),
    );
    // An output that is closed, or takes nothing, is no reason not to serve.
    let _ = patience::write(text, out);
}

/// Where to talk while the server runs: standard output, unless that is to carry the JSON report alone.
fn output(args: &ServeArgs) -> Box<dyn Write + Send> {
    match args.output.json.as_deref() {
        Some(path) if path == Path::new("-") => Box::new(std::io::stderr()),
        _ => Box::new(std::io::stdout()),
    }
}
