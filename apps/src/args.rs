//! The command line.

mod value;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use spinwire_linux::address::{Address, SourceAddr};

use crate::help::{EXIT_STATUS, PING_HELP, RDMA, SERVE_HELP, SHM};
use crate::units;

/// The version, and what addresses this build knows: without its feature `rdma` it needs no RDMA library.
const VERSION: &str = if cfg!(feature = "rdma") {
    concat!(env!("CARGO_PKG_VERSION"), " (rdma://, shm://)")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (shm:// only; built without the feature rdma)")
};

/// Run-to-completion RDMA on pinned cores.
#[derive(Debug, Parser)]
#[command(name = "spinwire", version = VERSION, about, after_help = EXIT_STATUS, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send messages back and forth and measure how long that takes.
    #[command(subcommand, after_help = EXIT_STATUS)]
    Echo(EchoCommand),
}

/// The subcommands of `echo`.
#[derive(Debug, Subcommand)]
pub enum EchoCommand {
    /// Answer every message with itself, for any number of clients, until SIGINT, SIGTERM or SIGHUP.
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Send messages to a server, wait for each reply, and print a table of latencies.
    #[command(after_help = PING_HELP)]
    Ping(PingArgs),
}

/// Arguments of `echo serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The address to listen on. For rdma:// its network interface decides which RDMA device is used; shm:// takes clients
    /// on this machine, at a name or at the path of a socket (shm:///run/app/echo) whose directory's permissions count;
    /// between containers it has to be a path.
    #[arg(long, value_name = "rdma://ADDR:PORT | shm://NAME")]
    pub listen: Address,
    /// Connections at one time; further ones are refused with "table full".
    #[arg(long, allow_hyphen_values = true, value_name = "N", default_value = "64", value_parser = value::connections)]
    pub connections_max: u32,
    /// Largest message, like 4k or 1m. Memory is set aside for it: connections x about 5 x depth x this.
    #[arg(long, allow_hyphen_values = true, value_name = "BYTES", default_value = "4k", value_parser = value::message_bytes)]
    pub message_max: u32,
    /// Messages in flight per connection and direction [default: 32, or what the device takes].
    #[arg(long, allow_hyphen_values = true, value_name = "D", value_parser = value::depth)]
    pub depth: Option<u32>,
    /// The loop, its memory and its connections.
    #[command(flatten)]
    pub core: CoreArgs,
    /// The output.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `echo ping`.
#[derive(Debug, Args)]
pub struct PingArgs {
    /// The server.
    #[arg(value_name = "rdma://ADDR:PORT | shm://NAME")]
    pub target: Address,
    /// Measured messages, like 100000, 7.5k or 1m [default: 100k, unless --seconds is given].
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = units::count, conflicts_with = "seconds")]
    pub count: Option<u64>,
    /// Measure for so long, like 10, 2.5 or 1min; where --rate is out of reach, up to 1 s more.
    #[arg(long, allow_hyphen_values = true, value_name = "S", value_parser = units::seconds)]
    pub seconds: Option<Duration>,
    /// Message size, like 0, 64, 4k or 1m.
    #[arg(long, allow_hyphen_values = true, value_name = "BYTES", default_value = "64", value_parser = value::size)]
    pub size: u32,
    /// Messages in flight on each connection. Those that the server has no receives for wait at the client: it has as many as
    /// its own depth, and some spare ones.
    #[arg(long, allow_hyphen_values = true, value_name = "D", default_value = "1", value_parser = value::depth)]
    pub depth: u32,
    /// Connections, all on the one core.
    #[arg(long, allow_hyphen_values = true, value_name = "C", default_value = "1", value_parser = value::connections)]
    pub connections: u32,
    /// Messages per second over all connections, like 10k or 7.5k, whatever the replies do. Latency is then measured from the
    /// time a message was planned to go out, so that a stall counts for every message it delayed.
    #[arg(long, allow_hyphen_values = true, value_name = "R", value_parser = units::count)]
    pub rate: Option<u64>,
    /// Check every byte of every reply. One message in flight is not charged for it; several wait for each other's.
    #[arg(long)]
    pub verify: bool,
    /// Messages before the measured ones that do not count [default: a tenth of the run, at most 1000 and
    /// about 64 MiB].
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = value::warmup)]
    pub warmup: Option<u64>,
    /// Local address to connect from; its network interface decides which RDMA device is used.
    #[arg(long, value_name = "ADDR", help_heading = RDMA)]
    pub bind: Option<SourceAddr>,
    /// Give up when nothing moves for so long.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", default_value = "5s", value_parser = units::span)]
    pub timeout: Duration,
    /// While the server cannot be reached, does not answer, or nobody listens yet, try again for so long; the pauses
    /// double from 0.1 to 2 s [default: no second attempt, but for a connection the server calls stale].
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", value_parser = units::span)]
    pub retry_for: Option<Duration>,
    /// Draw the distribution of the latencies, as an SVG picture that any browser shows.
    #[arg(long, value_name = "FILE", value_parser = value::picture)]
    pub plot: Option<PathBuf>,
    /// The loop, its memory and its connections.
    #[command(flatten)]
    pub core: CoreArgs,
    /// The output.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What both sides can set about their loop.
#[derive(Debug, Args)]
pub struct CoreArgs {
    /// The CPU to pin the loop to. The loop keeps it fully busy.
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = value::cpu)]
    pub core: u32,
    /// The peer is another rdma_cm program, not spinwire: plain sends, no handshake, no flow control.
    #[arg(long, help_heading = RDMA)]
    pub raw: bool,
    /// Memory pages to try, in this order.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PAGES", default_value = "2m,thp,4k")]
    pub pages: Vec<Pages>,
    /// What the loop does when there is nothing to do.
    #[arg(long, value_enum, default_value = "spin")]
    pub idle: Idle,
    /// How the loop learns of connection events.
    #[arg(long, value_enum, default_value = "auto")]
    pub readiness: Readiness,
    /// Messages up to this size travel inside the work request [default: 220, or what the device takes].
    #[arg(long, allow_hyphen_values = true, value_name = "BYTES", value_parser = value::size, help_heading = RDMA)]
    pub inline: Option<u32>,
    /// Wait so long for an acknowledgement before sending again [default: 134ms]. A silent peer is given up after about
    /// this x (retry + 1); the kernel can wait up to four times as long.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", value_parser = units::span, help_heading = RDMA)]
    pub ack_timeout: Option<Duration>,
    /// Sends without acknowledgement are repeated so often [default: 6]. The client's number holds for both sides; on a
    /// server this changes nothing. (7 would mean for ever, so it is not offered.)
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = value::retries, help_heading = RDMA)]
    pub retry: Option<u8>,
    /// A peer that finds no receive posted here waits so long before it tries again, 10us to 491ms [default: 640us].
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", value_parser = value::rnr_timer, help_heading = RDMA)]
    pub rnr_timer: Option<Duration>,
    /// A peer that finds no receive posted here tries again so often [default: 6].
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = value::retries, help_heading = RDMA)]
    pub rnr_retry: Option<u8>,
    /// Also processes of this user, by name or number, may be at the other end; repeat it for several. The own user and
    /// root always may.
    #[arg(long, value_name = "USER", help_heading = SHM)]
    pub allow_user: Vec<String>,
    /// Keep message buffers private: messages of more than 120 bytes are then copied twice, not once. Otherwise a peer of
    /// the own user can read them, also those of other connections, as a debugger could.
    #[arg(long, help_heading = SHM)]
    pub private_buffers: bool,
}

/// What both sides can set about their output.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Also write the report as JSON; `-` for standard output, instead of the table. A reader that closes its pipe before
    /// it has all changes nothing of the status. JSON.md, beside the source of this command, explains each field.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print errors only; a server also its one line that clients can connect.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Kinds of memory pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pages {
    /// Huge pages of 1 GiB.
    #[value(name = "1g")]
    Huge1G,
    /// Huge pages of 2 MiB.
    #[value(name = "2m")]
    Huge2M,
    /// Transparent huge pages.
    #[value(name = "thp")]
    Transparent,
    /// Small pages.
    #[value(name = "4k")]
    Small,
}

/// What a loop does between turns without work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// The next turn at once: lowest latency.
    Spin,
    /// After 50 us without work, tell the processor that this is a spin loop: easier on a sibling hyper-thread.
    Pause,
    /// After 1 ms without work, sleep in the kernel, at most 1 ms at a time: lets the CPU rest, costs up to that in
    /// latency.
    Block,
}

/// How a loop learns of connection events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Readiness {
    /// io_uring where the kernel allows it, else timed.
    Auto,
    /// io_uring: a memory load per turn. An error where the kernel does not allow it.
    IoUring,
    /// poll(2) every 200 us.
    Timed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    fn ping(extra: &str) -> Result<PingArgs, clap::Error> {
        let words = format!("spinwire echo ping rdma://192.0.2.1:7471 --core 1 {extra}");
        Cli::try_parse_from(words.split_whitespace()).map(|cli| match cli.command {
            Command::Echo(EchoCommand::Ping(args)) => args,
            Command::Echo(EchoCommand::Serve(_)) => unreachable!("ping was asked"),
        })
    }

    #[test]
    fn the_options_of_the_manual_are_understood() {
        let args = ping("--count 1m --size 4k --depth 32 --connections 8 --rate 10k --verify --json out.json").unwrap();
        assert_eq!((args.count, args.size, args.depth, args.connections), (Some(1_000_000), 4_096, 32, 8));
        assert_eq!((args.rate, args.verify), (Some(10_000), true));
        assert_eq!(ping("--retry-for 5s").unwrap().retry_for, Some(Duration::from_secs(5)));
        let args = ping("--seconds 2.5 --bind fe80::1%lo --pages 1g,4k --idle block --readiness io-uring").unwrap();
        assert_eq!(args.seconds, Some(Duration::from_millis(2_500)));
        assert_eq!(args.core.pages, [Pages::Huge1G, Pages::Small]);
    }

    #[test]
    fn what_goes_against_each_other_or_out_of_range_is_refused() {
        for extra in [
            "--count 5 --seconds 5",
            "--count 0",
            "--size 9m",
            "--depth 0",
            "--depth 4097",
            "--connections 0",
            "--rate 0",
            "--retry 7",
            "--rnr-timer 1s",
            "--pages 3m",
            "--timeout 5",
            "--warmup -1",
            "--seconds -2",
        ] {
            let error = ping(extra).expect_err(extra);
            assert_eq!(error.exit_code(), 2, "{extra}");
        }
    }

    #[test]
    fn a_number_that_cannot_be_is_answered_with_what_can() {
        let said = |extra: &str| ping(extra).expect_err(extra).to_string();
        for (extra, part) in [
            ("--count -5", "'-5' is not a count from 1; write a number like 100000, 100k, 1m"),
            ("--timeout -5s", "'-5s' is not a span of time above zero; write it like 640us"),
            ("--size -1", "'-1' is not a size; write bytes like 64, 4k, 1m"),
            ("--retry -1", "'-1' is not a number from 0 to 6; write one like 6"),
            ("--depth 1m", "'1m' is not a number from 1 to 4,096; write one like 32"),
            ("--connections 65537", "'65537' is not a number from 1 to 65,536; write one like 64"),
            ("--retry 7", "'7' is not a number from 0 to 6; write one like 6"),
            ("--count 99999999999999999999", "too large a count; write one up to 18,446,744,073,709,551,615"),
            ("--size 9m", "9,437,184 bytes are too many: at most 8,388,608 (8m)"),
        ] {
            assert!(said(extra).contains(part), "{}", said(extra));
        }
        let core = Cli::try_parse_from("spinwire echo ping shm://name --core x".split_whitespace()).unwrap_err();
        assert!(core.to_string().contains("'x' is not the number of a CPU; write one from 0 on, like 2"), "{core}");
        assert_eq!(ping("--connections 1k").unwrap().connections, 1_000);
    }
}
