//! `spinwire echo`: the two sides, and what their set-ups have in common.

mod ping;
mod serve;
mod talk;

use std::time::Duration;

use spinwire::args::{CoreArgs, EchoCommand, Idle, Pages, Readiness};
use spinwire::exit::Failure;
use spinwire::patience;
use spinwire_core::config::Mode;
use spinwire_linux::mem::{PageKind, PagePolicy};
use spinwire_linux::runtime::{self, AnyRole, AnySetup, LinkOptions, Options, ReadinessWish, Size};
use spinwire_linux::shm::{Users, user_number};
use spinwire_linux::signals::Stop;

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
            Readiness::Timed => ReadinessWish::Timed(spinwire_linux::readiness::TIMED_DEFAULT),
        },
        idle: match args.idle {
            Idle::Spin => runtime::Idle::Spin,
            Idle::Pause => runtime::Idle::Pause { after: Duration::from_micros(50) },
            Idle::Block => runtime::Idle::Block { after: Duration::from_millis(1), at_most: Duration::from_millis(1) },
        },
        link: LinkOptions {
            ack_timeout: args.ack_timeout.unwrap_or(defaults.link.ack_timeout),
            retries: args.retry.unwrap_or(defaults.link.retries),
            rnr_delay: args.rnr_timer.unwrap_or(defaults.link.rnr_delay),
            rnr_retries: args.rnr_retry.unwrap_or(defaults.link.rnr_retries),
        },
        lend_buffers: !args.private_buffers,
        ..defaults
    })
}

/// Sets up, and says so where it takes long: a server is not there for its clients until it is done.
fn set_up(options: &Options, role: AnyRole) -> Result<AnySetup, Failure> {
    let set_up = || AnySetup::new(options, role);
    let setup =
        patience::told_if_slow("still setting memory aside: connections x 5 x depth x the largest message", set_up);
    setup.map_err(|error| not_set_up(error, &options.stop))
}

/// Why a set-up ended that was to end when `stop` says so.
fn not_set_up(error: impl ToString, stop: &Stop) -> Failure {
    stop.signal().map_or_else(|| Failure::setup(error), Failure::signal)
}

/// The users that may be at the other end of shared memory. Refuses what means nothing there.
fn shm_users(args: &CoreArgs, bind: bool) -> Result<Users, Failure> {
    let given = [
        ("--bind", bind, "both ends are on this machine"),
        ("--raw", args.raw, "both ends are spinwire"),
        ("--inline", args.inline.is_some(), "up to 120 bytes travel inside the descriptor, always"),
        ("--ack-timeout", args.ack_timeout.is_some(), "nothing is lost on the way, so nothing is sent again"),
        ("--retry", args.retry.is_some(), "nothing is lost on the way, so nothing is sent again"),
        ("--rnr-timer", args.rnr_timer.is_some(), "a message waits in the ring for its receive"),
        ("--rnr-retry", args.rnr_retry.is_some(), "a message waits in the ring for its receive"),
    ];
    if let Some((option, _, why)) = given.into_iter().find(|(_, given, _)| *given) {
        return Err(Failure::usage(format!("{option} means nothing over shm://: {why}; leave it out")));
    }
    let unknown = |user: &String| Failure::usage(format!("--allow-user: there is no user '{user}' on this machine"));
    let numbers: Result<Vec<u32>, Failure> =
        args.allow_user.iter().map(|user| user_number(user).ok_or_else(|| unknown(user))).collect();
    Ok(Users::own_and(numbers?))
}

/// Refuses what means nothing over RDMA.
fn check_rdma(args: &CoreArgs) -> Result<(), Failure> {
    let given = [
        ("--allow-user", !args.allow_user.is_empty(), "the network tells no users"),
        ("--private-buffers", args.private_buffers, "the device reaches registered memory only"),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((option, _, why)) => {
            Err(Failure::usage(format!("{option} means nothing over rdma://: {why}; leave it out")))
        }
        None => Ok(()),
    }
}
