//! `spinwire echo ping`.

use spinwire::args::PingArgs;
use spinwire::exit::{self, Failure};
use spinwire::load::{self, Extent, Pace};
use spinwire::outcome::Outcome;
use spinwire::patience;
use spinwire::ping::Pinger;
use spinwire::plan::Plan;
use spinwire::progress::Progress;
use spinwire::reason::Over;
use spinwire::report::{Outputs, PingReport};
use spinwire::units::{Grouped, counted};
use spinwire_core::config::{Retry, Timeouts};
use spinwire_core::time::Nanos;
use spinwire_linux::address::Address;
use spinwire_linux::runtime::{AnyReactor, AnyRole, Options, ShmRole, Size};

use super::talk::Talk;

/// Runs the client.
///
/// # Errors
/// The status to end with, and what to say.
pub fn run(args: &PingArgs) -> Result<(), Failure> {
    let outputs = Outputs::new(args.output.json.as_deref(), args.plot.as_deref())?;
    let options = Options {
        connections: args.connections,
        depth: Size::Asked(args.depth),
        message_bytes_max: args.size.max(1),
        timeouts: Timeouts { connect: args.timeout.into(), ..Timeouts::default() },
        retry: retry(args),
        ..super::options(&args.core)?
    };
    let role = match &args.target {
        Address::Rdma(_) => {
            super::check_rdma(&args.core)?;
            args.target.connect(args.bind.as_ref()).map_err(Failure::setup)?
        }
        Address::Shm(name) => {
            let users = super::shm_users(&args.core, args.bind.is_some())?;
            AnyRole::Shm(ShmRole::Connect(name.clone(), users))
        }
    };
    // Standard output is the report's.
    let talk = Talk::begin(args.output.quiet, LOG_LINES, std::io::stderr())?;
    let options = Options { stop: talk.stop.clone(), ..options };
    let mut setup = super::set_up(&options, role)?;
    ping(talk, args, setup.start().map_err(Failure::setup)?, outputs)
}

/// Runs the loop to its end, and reports.
fn ping(
    talk: Talk<Progress>,
    args: &PingArgs,
    mut reactor: AnyReactor<'_>,
    mut outputs: Outputs,
) -> Result<(), Failure> {
    let plan = plan(args);
    let mut pinger = Pinger::new(plan, talk.stop, talk.log);
    let ran = reactor.run(&mut pinger, Pinger::is_done);

    let (outcome, measure) = pinger.into_results();
    if let Some(printer) = talk.printer {
        printer.finish();
    }
    if let Outcome::Failed(trouble) = outcome {
        // Said first: the table may be empty, and the reason is what is looked for.
        patience::say(trouble);
    }
    if let Some(replies) = measure.ended_in_warmup {
        let (replies, of) = (Grouped(replies), counted(plan.warmup, "message"));
        patience::say(format_args!("it ended in its warm-up, after {replies} of {of}: nothing was measured"));
    }
    let report = PingReport::new(args.target.to_string(), &plan, &outcome, &measure, reactor.report());
    // A table of nothing would only hide the reason.
    let quiet = args.output.quiet || (measure.replies == 0 && outcome != Outcome::Complete);
    let printed = outputs.print(&report, quiet);
    let drawn = outputs.draw((&report.title(), report.latency_name()), &measure.response);
    let ended = ran.map_err(Failure::run).and(match outcome {
        Outcome::Complete => Ok(()),
        Outcome::Interrupted(signal) => Err(Failure::signal(signal)),
        Outcome::Failed(_) => Err(Failure::run("")),
    });
    exit::first(ended, [printed, drawn])
}

/// Lines that may wait to be printed.
const LOG_LINES: usize = 16;

/// One attempt, or as many as there is time for.
fn retry(args: &PingArgs) -> Retry {
    match args.retry_for {
        Some(within) => {
            let (attempts, within) = (u32::MAX, within.into());
            Retry { attempts, attempts_stale: attempts, nobody_listens: true, within, ..Retry::DEFAULT }
        }
        // The time for each step is what counts, however long it is.
        None => Retry { within: Nanos::from_secs(u64::MAX), ..Retry::DEFAULT },
    }
}

/// Messages when neither a count nor a time is given.
const COUNT_DEFAULT: u64 = 100_000;

fn plan(args: &PingArgs) -> Plan {
    let pace = args.rate.map_or(Pace::Closed, Pace::Rate);
    let extent = match args.seconds {
        Some(span) => Extent::Span(span.into()),
        None => Extent::Count(args.count.unwrap_or(COUNT_DEFAULT)),
    };
    Plan {
        connections: args.connections,
        depth: args.depth,
        message_bytes: args.size,
        pace,
        extent,
        warmup: args.warmup.unwrap_or_else(|| load::default_warmup(pace, extent, args.size)),
        verify: args.verify,
        raw: args.core.raw,
        core: args.core.core,
        over: Over::of(&args.target),
        timeout: args.timeout.into(),
    }
}
