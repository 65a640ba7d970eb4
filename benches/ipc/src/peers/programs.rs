//! Peers that come as programs which time themselves: UCX's `ucx_perftest` and libfabric's `fi_pingpong`. Both ends of
//! either run as short processes on the same two CPUs as everybody else, between two checks of the placement.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use spinwire_benches::Sample;
use spinwire_benches::cores::Cores;

use crate::contests::Kind;
use crate::peer::{Failure, PATIENCE};

/// A program that measures between two processes of itself.
pub struct Program {
    /// As the table shows it.
    pub name: &'static str,
    command: &'static str,
    package: &'static str,
    environment: &'static [(&'static str, &'static str)],
    port: &'static str,
    /// Arguments for one run each, which together give the sample; none if it does not measure that.
    arguments: fn(Kind, usize) -> Vec<String>,
    /// The sample from what the clients printed.
    sample: fn(Kind, &[String]) -> Option<Sample>,
}

/// Those that there are.
pub const ALL: &[Program] = &[
    Program {
        name: "ucx_tag",
        arguments: |kind, bytes| match kind {
            Kind::Trips => ranks("-t tag_lat", bytes),
            Kind::Stream => vec![format!("-t tag_bw {}", times(bytes))],
        },
        ..UCX
    },
    Program {
        name: "ucx_uct_am",
        arguments: |kind, bytes| match kind {
            Kind::Trips => ranks("-t am_lat -x posix -d memory", bytes),
            // Longer ones it does not take.
            Kind::Stream if bytes > 4096 => Vec::new(),
            Kind::Stream => {
                let layout = if bytes <= 64 { "short" } else { "bcopy" };
                vec![format!("-t am_bw -x posix -d memory -D {layout} {}", times(bytes))]
            }
        },
        ..UCX
    },
    Program {
        name: "libfabric_shm",
        command: "fi_pingpong",
        package: "libfabric-bin",
        environment: &[],
        port: "-B",
        arguments: |kind, bytes| match kind {
            Kind::Trips => vec![format!("-p shm -e rdm -I {TRIPS} -S {bytes}")],
            // It only sends back and forth.
            Kind::Stream => Vec::new(),
        },
        sample: |_, printed| {
            // bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec; a transfer is one way.
            let fields: Vec<&str> = printed[0].lines().last()?.split_whitespace().collect();
            let one_way: f64 = fields.get(6)?.parse().ok()?;
            Some(trips([None; 3], Some(one_way)))
        },
    },
];

const UCX: Program = Program {
    name: "",
    command: "ucx_perftest",
    package: "ucx-utils",
    environment: &[("UCX_TLS", "shm,self"), ("UCX_WARN_UNUSED_ENV_VARS", "n")],
    port: "-p",
    arguments: |_, _| Vec::new(),
    // iterations, latency at the percentile, its average of late, its average, bandwidths, rates; a latency is one way.
    sample: |kind, printed| {
        let runs: Option<Vec<Vec<f64>>> = printed.iter().map(|text| numbers(text.lines().last()?)).collect();
        let runs = runs?;
        match kind {
            Kind::Trips => Some(trips([0, 1, 2].map(|run| runs[run].get(1).copied()), runs[0].get(3).copied())),
            Kind::Stream => Some(Sample { elapsed: SOME, ns: vec![1e9 / runs[0].get(7)?] }),
        }
    },
};

fn numbers(line: &str) -> Option<Vec<f64>> {
    line.split(',').map(|number| number.trim().parse().ok()).collect()
}

/// `ucx_perftest` tells one percentile in a run.
fn ranks(test: &str, bytes: usize) -> Vec<String> {
    ["50", "99", "99.9"].map(|rank| format!("{test} -s {bytes} -n {TRIPS} -w 1000 -R {rank}")).to_vec()
}

/// About 20 MB, but some.
fn times(bytes: usize) -> String {
    let times = (20_000_000 / bytes).clamp(100, 200_000);
    format!("-s {bytes} -n {times} -w {}", times / 10)
}

/// Percentiles and mean of round trips in ns from those of one way in us.
fn trips(percentiles: [Option<f64>; 3], mean: Option<f64>) -> Sample {
    let ns = percentiles.into_iter().chain([mean]).map(|us| us.map_or(f64::NAN, |us| us * 2_000.0));
    Sample { elapsed: SOME, ns: ns.collect() }
}

impl Program {
    /// Runs it as often as it takes for one sample.
    ///
    /// # Errors
    /// It is not installed, does not measure that, or failed.
    pub fn measure(&self, cores: &Cores, kind: Kind, bytes: usize, priority: bool) -> Result<Sample, Failure> {
        let arguments = (self.arguments)(kind, bytes);
        if arguments.is_empty() {
            return Err(format!("{} does not measure {}", self.command, kind.words()).into());
        }
        let mut printed = Vec::new();
        for line in arguments {
            printed.push(self.run(cores, &line, priority)?);
        }
        let sample = (self.sample)(kind, &printed);
        sample.ok_or_else(|| format!("{} printed no figures: {printed:?}", self.command).into())
    }

    fn run(&self, cores: &Cores, arguments: &str, priority: bool) -> Result<String, Failure> {
        let port = free_port()?;
        let server = self.start(cores.id(1), arguments, &[self.port, &port.to_string()], priority)?;
        let mut server = Ended(server);
        let begun = Instant::now();
        while !is_listening(port)? {
            if begun.elapsed() > PATIENCE || server.0.try_wait()?.is_some() {
                return Err(format!("{} does not listen", self.command).into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let client_port = if self.port == "-B" { "-P" } else { self.port };
        let client = self.start(cores.id(0), arguments, &[client_port, &port.to_string(), "127.0.0.1"], priority)?;
        let Output { status, stdout, stderr } = client.wait_with_output()?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr).into_owned() + &String::from_utf8_lossy(&stdout);
            return Err(format!("{} {arguments}: {status}: {said}", self.command).into());
        }
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    /// Pinned, ended after [`PATIENCE`], and with the priority that everybody has.
    fn start(&self, cpu: usize, arguments: &str, more: &[&str], priority: bool) -> Result<Child, Failure> {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE.as_secs().to_string());
        if priority {
            command.args(["chrt", "--fifo", "1"]);
        }
        command.args(["taskset", "--cpu-list", &cpu.to_string(), self.command]);
        if self.command == UCX.command && more.len() > 2 {
            command.args(["-v"]);
        }
        command.args(arguments.split(' ')).args(more).envs(self.environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command.spawn()?)
    }

    /// Whether it is installed.
    ///
    /// # Errors
    /// How to install it.
    pub fn find(&self) -> Result<(), Failure> {
        let there = Command::new(self.command).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status();
        match there {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("there is no {}; `ci/setup --peers` installs {}", self.command, self.package).into()),
        }
    }
}

/// Whether programs can be given the priority that this process has.
pub fn can_have_priority() -> bool {
    Command::new("chrt")
        .args(["--fifo", "1", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A server that is ended when it is not needed any more.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It ends by itself after one client. `timeout` passes the signal on.
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let (Ok(None), Some(pid)) = (self.0.try_wait(), rustix::process::Pid::from_raw(self.0.id() as i32)) {
            _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            _ = self.0.wait();
        }
    }
}

fn free_port() -> Result<u16, Failure> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Whether somebody listens on a TCP port, from the kernel's own list.
fn is_listening(port: u16) -> Result<bool, Failure> {
    let (port, listen) = (format!(":{port:04X}"), "0A");
    Ok(["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|list| fs::read_to_string(list).ok()).any(|list| {
        list.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.len() > 3 && fields[1].ends_with(&port) && fields[3] == listen
        })
    }))
}

/// Round trips of a run.
const TRIPS: u32 = 20_000;
/// A run is a window, however long it takes.
const SOME: Duration = Duration::from_secs(1);
