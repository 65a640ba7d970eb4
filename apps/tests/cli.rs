//! The command line without RDMA: what it says and how it ends.

mod common;

use std::io::{PipeWriter, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Ended, spinwire};

/// The first CPU this process may use: the tests must also pass in a container that is not given CPU 0.
fn allowed_cpu() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    list.split([',', '-']).next().unwrap().parse().unwrap()
}

fn has_rdma() -> bool {
    std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some())
}

/// Asserts what this build says about an address with rdma:// on this machine; `usable` where it has a device.
#[track_caller]
fn expect_no_rdma(ended: Ended, usable: &[&str]) {
    let parts = match (cfg!(feature = "rdma"), has_rdma()) {
        (false, _) => &["built without rdma", "knows shm:// only", "cargo build --release -p spinwire"],
        (true, true) => usable,
        (true, false) => &["no rdma on this machine", "rdma link add", "ci/vm"],
    };
    parts.iter().fold(ended, |ended, part| ended.expect(part));
}

#[track_caller]
fn usage_error(arguments: &str) -> Ended {
    spinwire(arguments).expect_code(2)
}

#[test]
fn help_teaches_by_example_and_names_every_exit_status() {
    spinwire("--help").expect_code(0).expect("echo").expect("Exit status:");
    let serve = spinwire("echo serve --help").expect_code(0);
    serve.expect("spinwire echo serve --listen rdma://192.0.2.1:7471 --core 2").expect("--connections-max");
    let mut ping = spinwire("echo ping --help").expect_code(0);
    for part in ["--connections 8 --count 1m --verify", "--rate", "--bind", "130", "default: 1"] {
        ping = ping.expect(part);
    }
}

#[test]
fn the_version_is_the_packages() {
    let said = spinwire("--version").expect_code(0).expect(concat!("spinwire ", env!("CARGO_PKG_VERSION")));
    assert_eq!(said.output.contains("(rdma://, shm://)"), cfg!(feature = "rdma"), "{}", said.output);
}

#[test]
fn wrong_arguments_end_with_2_and_say_what_is_right() {
    usage_error("");
    usage_error("echo");
    usage_error("echo serve --core 0").expect("--listen");
    usage_error("echo ping rdma://192.0.2.1:7471").expect("--core");
    usage_error("echo ping 192.0.2.1:7471 --core 0").expect("rdma://192.0.2.1:7471");
    usage_error("echo ping shm:name --core 0").expect("shm://name");
    usage_error("echo ping rdma://192.0.2.1:7471 --core 0 --count 1 --seconds 1").expect("cannot be used with");
    usage_error("echo ping rdma://192.0.2.1:7471 --core 0 --size 9m").expect("at most 8,388,608");
    usage_error("echo ping rdma://192.0.2.1:7471 --core 0 --timeout 5").expect("like 640us");
    usage_error("echo ping rdma://192.0.2.1:7471 --core 0 --json /nonexistent/report.json").expect("no directory");
    usage_error("echo ping shm://name --core 0 --json /").expect("--json: / is a directory");
    usage_error("echo serve --listen shm://name --core 0 --json /proc/report.json").expect("--json: cannot write");
    usage_error("echo ping shm://name --core 0 --plot /nonexistent/picture.svg")
        .expect("--plot: there is no directory");
    usage_error("echo ping shm://name --core 0 --plot -").expect("a picture needs a file");
}

#[test]
fn an_address_without_rdma_ends_with_3_and_says_what_to_do() {
    let ended = spinwire(&format!("echo serve --listen rdma://127.0.0.1:7471 --core {}", allowed_cpu())).expect_code(3);
    expect_no_rdma(ended, &["interface lo has no rdma device", "usable:"]);
}

#[test]
fn a_client_without_rdma_ends_with_3_and_prints_no_table() {
    let target = "rdma://127.0.0.1:7471";
    let ended = spinwire(&format!("echo ping {target} --bind 127.0.0.1 --core {}", allowed_cpu())).expect_code(3);
    assert!(!ended.output.contains("p99"), "{}", ended.output);
    expect_no_rdma(ended, &[]);
}

#[test]
fn a_cpu_that_may_not_be_used_is_named_with_those_that_may() {
    let unused = format!("shm://unused-{}", std::process::id());
    for address in [unused.as_str()].into_iter().chain(cfg!(feature = "rdma").then_some("rdma://127.0.0.1:7471")) {
        spinwire(&format!("echo serve --listen {address} --core 8191"))
            .expect_code(3)
            .expect("8191")
            .expect("may use CPUs");
    }
}

#[cfg(feature = "rdma")]
#[test]
fn a_name_that_does_not_exist_ends_with_3_in_time() {
    let begun = std::time::Instant::now();
    spinwire("echo ping rdma://no-such-host.invalid:7471 --core 0").expect_code(3).expect("no-such-host.invalid");
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[cfg(feature = "rdma")]
#[test]
fn an_unknown_interface_in_an_address_is_named() {
    spinwire("echo ping rdma://[fe80::1%nope0]:7471 --core 0").expect_code(3).expect("'nope0'").expect("ip link");
}

/// Runs the command with an output that takes nothing, a pipe that is full and that nobody reads, and gives its status.
fn with_full_pipe(arguments: &str, connect: fn(&mut Command, PipeWriter)) -> Option<i32> {
    let (_reader, mut writer) = std::io::pipe().unwrap();
    // What a pipe holds unless it is told otherwise, pipe(7).
    writer.write_all("x".repeat(1 << 16).as_bytes()).unwrap();
    let mut command = Command::new(common::SPINWIRE);
    connect(command.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null()), writer);
    let mut process = command.spawn().unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        if let Some(status) = process.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    panic!("{arguments}: held up by its output");
}

#[test]
fn an_output_that_takes_nothing_holds_nothing_up() {
    let nobody = format!("echo ping shm://nobody-{} --core {}", std::process::id(), allowed_cpu());
    let stderr = |command: &mut Command, pipe: PipeWriter| {
        command.stderr(pipe);
    };
    assert_eq!(with_full_pipe(&nobody, stderr), Some(1), "a failure that cannot be told is one");
    assert_eq!(with_full_pipe("echo ping", stderr), Some(2));
    assert_eq!(
        with_full_pipe("--help", |command, pipe| {
            command.stdout(pipe);
        }),
        Some(0)
    );
    let to_full_disk = |command: &mut Command, _: PipeWriter| {
        command.stderr(std::fs::File::options().write(true).open("/dev/full").unwrap());
    };
    assert_eq!(with_full_pipe(&nobody, to_full_disk), Some(1), "what cannot be said is no panic");
}
