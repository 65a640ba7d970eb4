//! Shared memory in use asks nothing of the kernel.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::fabric::{alone, cpu, echoes, shm_name};
use common::{PATIENCE, Running, SPINWIRE, scratch};

/// Calls that a server or client makes from its first message to its last, by strace; `None` where there is none.
fn traced(arguments: &str, file: &Path) -> Option<Running> {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).output().is_ok_and(|out| out.status.success());
    if !works {
        println!("skipped: strace does not work here");
        return None;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-o"]).arg(file).arg(SPINWIRE).args(arguments.split_whitespace());
    Some(Running::command(command))
}

/// The lines of a trace that are calls of the thread that runs the loop: the first.
fn calls_of_the_loop(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let thread = text.split_whitespace().next().unwrap().to_owned();
    text.lines().filter(|line| line.starts_with(&thread) && line.contains('(')).map(ToOwned::to_owned).collect()
}

/// `SPINWIRE_SHM_ECHOES=10000000` makes the longer run that long.
#[test]
fn a_hundred_thousand_messages_cost_no_system_call_on_either_side() {
    let _turn = alone();
    let mut counts = Vec::new();
    let echoes = echoes(100_000);
    for messages in [2_000, echoes] {
        let (server_file, client_file, url) = (scratch("server.strace"), scratch("client.strace"), shm_name());
        let serve = format!("echo serve --listen {url} --core {} --quiet --readiness io-uring", cpu(0));
        let Some(mut server) = traced(&serve, &server_file) else { return };
        server.wait_for("listening on", PATIENCE);
        let ping =
            format!("echo ping {url} --core {} --depth 8 --count {messages} --warmup 1 --verify --quiet", cpu(1));
        traced(&ping, &client_file).unwrap().finish(PATIENCE).expect_code(0);
        // strace passes signals on to what it traces only if they are sent to that.
        let traced = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).unwrap();
        let stopped = Command::new("kill").args(["-s", "INT", traced.trim()]).status().unwrap();
        assert!(stopped.success());
        server.finish(PATIENCE).expect_code(0);
        counts.push([&server_file, &client_file].map(|file| calls_of_the_loop(file).len()));
        for file in [server_file, client_file] {
            // Left behind if it cannot be removed: it lies in the directory for such files.
            let _ = fs::remove_file(file);
        }
    }
    let [few, many] = counts[..] else { unreachable!("two runs") };
    for (few, many) in few.into_iter().zip(many) {
        // Which pages the allocator gives back at the start and the end differs by a few calls from run to run.
        println!("system calls from start to end: {few} with 2000 messages, {many} with {echoes}");
        assert!(few > 20 && many < few + 20, "{few} calls became {many} with {echoes} messages");
    }
}
