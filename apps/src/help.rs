//! The longer texts of `--help`. No line of them is longer than 79 characters: a longer one would be broken twice.

pub(crate) const RDMA: &str = "For rdma:// only";
pub(crate) const SHM: &str = "For shm:// only";

pub(crate) const EXIT_STATUS: &str = "\
Exit status:
  0    the run did what was asked
  1    the run failed: a wrong reply, a connection refused or lost, no progress
  2    wrong usage, or a file of --json or --plot that cannot be written
  3    it could not be set up here: no RDMA, no memory, no such core, port or
       name in use; or a report could not be written
  130  stopped by SIGINT, 143 by SIGTERM, 129 by SIGHUP (a server only before
       it was ready)";

pub(crate) const SERVE_HELP: &str = "\
Examples:
  answer on the device behind 192.0.2.1 from core 2
    spinwire echo serve --listen rdma://192.0.2.1:7471 --core 2
  answer processes of this machine over shared memory
    spinwire echo serve --listen shm://echo --core 2

The server prints a line that starts with 'listening on' when clients can
connect, and one line for each that comes and goes. After SIGINT, SIGTERM
or SIGHUP it refuses new clients, closes its connections, waits for posted work
to come back, and ends with status 0. A second signal ends it at once.

Exit status:
  0    stopped by SIGINT, SIGTERM or SIGHUP, every connection closed
  1    the run failed: the device or the listener went away
  2    wrong usage, or a file of --json that cannot be written
  3    it could not be set up here: no RDMA, no memory, no such core, port or
       name in use; or the report could not be written
  130  stopped by SIGINT before it was ready, 143 by SIGTERM, 129 by SIGHUP";

pub(crate) const PING_HELP: &str = "\
Examples:
  100,000 round trips of 64 bytes, one at a time
    spinwire echo ping rdma://192.0.2.1:7471 --core 3
  how much the server takes: 32 in flight on each of 8 connections, checked
    spinwire echo ping rdma://192.0.2.1:7471 --core 3 --depth 32 \\
      --connections 8 --count 1m --verify
  latency at a fixed load of 10,000 messages per second
    spinwire echo ping rdma://192.0.2.1:7471 --core 3 --rate 10k --seconds 10
  the same between two processes of this machine
    spinwire echo ping shm://echo --core 3 --rate 10k --seconds 10
  a picture of the latencies of a million messages
    spinwire echo ping shm://echo --core 3 --count 1m --plot latency.svg

Where both devices are in one machine, name the client's with --bind, or the
kernel takes the same for both ends.

SIGINT, SIGTERM or SIGHUP ends the run, and what was measured so far is
printed. A second signal ends it at once.

Exit status:
  0    every message got its reply (and every byte was right, with --verify)
  1    the run failed: a wrong reply, a connection refused or lost, no
       progress; what was measured is printed
  2    wrong usage, or a file of --json or --plot that cannot be written
  3    it could not be set up here: no RDMA, no memory, no such core, no such
       address; or a report could not be written
  130  stopped by SIGINT, 143 by SIGTERM, 129 by SIGHUP";

#[cfg(test)]
mod tests {
    #[test]
    fn no_line_is_broken_twice() {
        let texts = [super::EXIT_STATUS, super::SERVE_HELP, super::PING_HELP];
        let long: Vec<&str> = texts.iter().flat_map(|text| text.lines()).filter(|line| line.len() > 79).collect();
        assert!(long.is_empty(), "{long:?}");
    }
}
