//! `spinwire echo`: the two sides, and what their set-ups have in common.

mod ping;
mod serve;

use std::time::Duration;

use spinwire::args::{CoreArgs, EchoCommand, Idle, Pages, Readiness};
use spinwire::exit::Failure;
use spinwire_core::config::Mode;
use spinwire_linux::cm::LinkOptions;
use spinwire_linux::mem::{PageKind, PagePolicy};
use spinwire_linux::runtime::{self, Options, ReadinessWish};
use spinwire_linux::verbs::Size;

/// Runs one side.
///
/// # Errors
/// The status to end with, and what to say.
pub fn run(command: EchoCommand) -> Result<(), Failure> {
    match command {
        EchoCommand::Serve(args) => serve::run(&args),
        EchoCommand::Ping(args) => ping::run(&args),
    }
}

/// The look-up of a name may take so long.
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);

/// The set-up that both sides' arguments ask for; sizes are left at their defaults.
fn options(args: &CoreArgs) -> Result<Options, Failure> {
    let defaults = Options::on_core(args.core);
    let kinds = args.pages.iter().map(|pages| match pages {
        Pages::Huge1G => PageKind::OneGib,
        Pages::Huge2M => PageKind::TwoMib,
        Pages::Transparent => PageKind::Transparent,
        Pages::Small => PageKind::Small,
    });
    Ok(Options {
        mode: if args.raw { Mode::Raw } else { Mode::Spinwire },
        inline: args.inline.map_or(defaults.inline, Size::Asked),
        pages: PagePolicy::new(kinds).map_err(Failure::usage)?,
        readiness: match args.readiness {
            Readiness::Auto => ReadinessWish::Best,
            Readiness::IoUring => ReadinessWish::IoUring,
            Readiness::Timed => ReadinessWish::Timed(spinwire_linux::cm::readiness::TIMED_DEFAULT),
        },
        idle: match args.idle {
            Idle::Spin => runtime::Idle::Spin,
            Idle::Pause => runtime::Idle::Pause { after: Duration::from_micros(50) },
            Idle::Block => runtime::Idle::Block { after: Duration::from_millis(1), at_most: Duration::from_millis(1) },
        },
        link: LinkOptions {
            ack_timeout: args.ack_timeout,
            retries: args.retry,
            rnr_delay: args.rnr_timer,
            rnr_retries: args.rnr_retry,
        },
        ..defaults
    })
}
