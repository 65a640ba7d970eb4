//! Names, directories, users and limits of shared memory: a clear word for each that stands in the way.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use common::fabric::{Fabric, alone, cpu, serve_at, shm_name};
use common::{Ended, PATIENCE, Running, SPINWIRE, scratch, spinwire};

/// A directory of this test's own, removed with it.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = scratch("dir");
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn url(&self) -> String {
        format!("shm://{}/echo", self.0.display())
    }

    fn mode(&self, mode: u32) {
        fs::set_permissions(&self.0, fs::Permissions::from_mode(mode)).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Left behind if it cannot be removed: it lies in the directory for such files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn refused(url: &str) -> Ended {
    spinwire(&format!("echo serve --listen {url} --core {}", cpu(0))).expect_code(3)
}

#[test]
fn a_name_that_a_live_server_has_is_named_with_its_process() {
    let _turn = alone();
    let directory = Directory::new();
    for url in [shm_name(), directory.url()] {
        let server = serve_at(&url, "");
        refused(&url).expect("is in use by process").expect(&server.process.pid().to_string());
        let (ended, _) = Fabric::Shm.ping(&url, "--count 100 --verify");
        ended.expect_code(0);
        server.stop();
    }
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0, "a server that ends takes its socket with it");
}

#[test]
fn a_socket_that_a_dead_server_left_is_replaced_and_that_is_said() {
    let _turn = alone();
    let directory = Directory::new();
    let server = serve_at(&directory.url(), "");
    server.process.signal("KILL");
    server.process.finish(PATIENCE);
    assert!(directory.0.join("echo").exists());
    let server = serve_at(&directory.url(), "");
    let (ended, _) = Fabric::Shm.ping(&directory.url(), "--count 100 --verify");
    ended.expect_code(0);
    server.stop().expect("the socket of a dead server was removed");
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let directory = Directory::new();
    fs::write(directory.0.join("echo"), "precious").unwrap();
    refused(&directory.url()).expect("exists and is no socket");
    assert_eq!(fs::read_to_string(directory.0.join("echo")).unwrap(), "precious");
}

#[test]
fn a_directory_that_is_not_there_or_cannot_hold_a_socket_is_named() {
    let directory = Directory::new();
    refused(&format!("shm://{}/missing/echo", directory.0.display())).expect("missing").expect("make it first");
    refused("shm:///proc/echo").expect("directory /proc").expect("shm://name");
}

#[test]
fn a_name_that_cannot_be_used_is_wrong_usage() {
    for url in ["shm://", "shm://a/b", "shm://a%20b", "shm:///"] {
        spinwire(&format!("echo serve --listen {url} --core 0")).expect_code(2).expect("shm://name");
    }
}

#[test]
fn options_that_mean_nothing_over_shared_memory_are_refused() {
    let name = shm_name();
    for option in ["--raw", "--inline 64", "--ack-timeout 1s", "--retry 3", "--rnr-timer 1ms", "--rnr-retry 3"] {
        let word = option.split(' ').next().unwrap();
        for command in [format!("echo serve --listen {name}"), format!("echo ping {name}")] {
            spinwire(&format!("{command} --core 0 {option}")).expect_code(2).expect(word).expect("over shm://");
        }
    }
    spinwire(&format!("echo ping {name} --core 0 --bind 127.0.0.1")).expect_code(2).expect("--bind");
    let rdma = "echo ping rdma://192.0.2.1:7471 --core 0 --allow-user root";
    spinwire(rdma).expect_code(2).expect("--allow-user").expect("over rdma://");
    let unknown = format!("echo ping {name} --core 0 --allow-user no-such-user");
    spinwire(&unknown).expect_code(2).expect("'no-such-user'");
}

#[test]
fn a_limit_of_open_files_is_named_with_the_way_to_raise_it() {
    let command = format!("ulimit -n 6; exec {SPINWIRE} echo serve --listen {} --core {}", shm_name(), cpu(0));
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]);
    Running::command(shell).finish(PATIENCE).expect_code(3).expect("ulimit -n");
}

#[test]
fn a_server_out_of_open_files_serves_those_it_has_and_goes_on() {
    let _turn = alone();
    let url = shm_name();
    let command = format!("ulimit -n 20; exec {SPINWIRE} echo serve --listen {url} --core {}", cpu(0));
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]);
    let mut server = Running::command(shell);
    server.wait_for("listening on", PATIENCE);
    let (ended, _) = Fabric::Shm.ping(&url, "--connections 40 --count 40 --timeout 2s");
    ended.expect_code(1);
    // It says so while it serves, once a second at most, and what the limit is.
    server.wait_for("raise it with `ulimit -n`", PATIENCE);
    let (ended, _) = Fabric::Shm.ping(&url, "--count 100 --verify");
    ended.expect_code(0);
    server.signal("INT");
    let ended = server.finish(PATIENCE).expect_code(0).expect("troubles ");
    let lines = ended.output.lines().filter(|line| line.contains("ulimit -n")).count();
    assert!(lines < 8, "{lines} lines in some seconds:\n{}", ended.output);
}

#[test]
fn descriptors_that_there_was_no_room_for_are_told_with_the_way_to_make_room() {
    let mut server = Fabric::Shm.server("");
    let pid = server.process.pid();
    // A limit that leaves room for one more, which is the client's socket: what it passes finds none.
    let is_open = |fd: &u32| std::path::Path::new(&format!("/proc/{pid}/fd/{fd}")).exists();
    let room = (0..).filter(|fd| !is_open(fd)).nth(1).unwrap();
    let limited = Command::new("prlimit").args([format!("--pid={pid}"), format!("--nofile={room}:{room}")]).status();
    assert!(limited.unwrap().success());
    Fabric::Shm.ping(&server.url, "--count 1").0.expect_code(1).expect("raise the server's `ulimit -n`");
    let told = server.process.wait_for("descriptors that came with it are lost, for want of room", PATIENCE);
    assert!(told.contains(&format!("the limit of open files is {room}, raise it with `ulimit -n`")), "{told}");
    server.stop();
}

/// Another user, if this one may become it and it can run the command.
fn other_user() -> Option<u32> {
    const NOBODY: u32 = 65_534;
    let can_run = Command::new(SPINWIRE).arg("--version").uid(NOBODY).output().is_ok_and(|out| out.status.success());
    if !can_run {
        println!("skipped: needs root, and a checkout that others may enter");
    }
    can_run.then_some(NOBODY)
}

fn as_user(uid: u32, arguments: &str) -> Running {
    let mut command = Command::new(SPINWIRE);
    command.args(arguments.split_whitespace()).uid(uid).gid(uid);
    Running::command(command)
}

#[test]
fn another_users_process_is_let_in_only_if_it_was_named() {
    let Some(other) = other_user() else { return };
    let _turn = alone();
    let url = shm_name();
    let ping = format!("echo ping {url} --core {} --count 100 --verify --allow-user root", cpu(1));

    let server = serve_at(&url, "");
    let refused = as_user(other, &ping);
    let client = refused.pid();
    refused.finish(PATIENCE).expect_code(1).expect("user 65534 is not allowed there");
    // That it was refused harmed nobody.
    let (ended, _) = Fabric::Shm.ping(&url, "--count 100 --verify");
    ended.expect_code(0);
    let said = format!("a client was turned away: process {client} (user 65534): user 65534 is not allowed there");
    server.stop().expect(&said);

    let server = serve_at(&url, &format!("--allow-user {other}"));
    as_user(other, &ping).finish(PATIENCE).expect_code(0);
    server.stop().expect("(user 65534) left: closed by the peer");
}

#[test]
fn another_user_who_locks_the_directory_keeps_no_server_from_starting() {
    let Some(other) = other_user() else { return };
    let _turn = alone();
    let directory = Directory::new();
    directory.mode(0o755);
    let mut locking = Command::new("sh");
    locking
        .args(["-c", &format!("exec flock -F {} sh -c 'echo locked; exec sleep 60'", directory.0.display())])
        .uid(other);
    let mut locking = Running::command(locking);
    locking.wait_for("locked", PATIENCE);
    serve_at(&directory.url(), "").stop();
    drop(locking);
    // Where others may write they can put a file in the way: it is named, and whose it is.
    directory.mode(0o1777);
    let mut putting = Command::new("touch");
    assert!(putting.arg(directory.0.join(".echo.lock")).uid(other).status().unwrap().success());
    refused(&directory.url()).expect(".echo.lock, of user 65534").expect("remove it");
}

#[test]
fn a_name_that_another_user_has_is_named_and_its_server_not_trusted() {
    let Some(other) = other_user() else { return };
    let _turn = alone();
    let url = shm_name();
    let mut server = as_user(other, &format!("echo serve --listen {url} --core {}", cpu(0)));
    server.wait_for("listening on", PATIENCE);
    refused(&url).expect("is in use by process").expect("(user 65534)");
    let ping = format!("echo ping {url} --core {} --count 100", cpu(1));
    Running::spinwire(&ping).finish(PATIENCE).expect_code(1).expect("of a user who is not allowed");
    Running::spinwire(&format!("{ping} --allow-user {other}")).finish(PATIENCE).expect_code(0);
    server.signal("INT");
    server.finish(PATIENCE).expect_code(0);
}

#[test]
fn the_permissions_of_directory_and_socket_count() {
    let Some(other) = other_user() else { return };
    let _turn = alone();
    let directory = Directory::new();
    directory.mode(0o755);
    let serve = format!("echo serve --listen {} --core {}", directory.url(), cpu(0));
    as_user(other, &serve).finish(PATIENCE).expect_code(3).expect("cannot make a socket").expect("writable");

    // Only the own user may connect: the kernel says so before anybody is asked.
    let server = serve_at(&directory.url(), "");
    let ping = format!("echo ping {} --core {} --count 100 --verify", directory.url(), cpu(1));
    as_user(other, &ping).finish(PATIENCE).expect_code(1).expect("Permission denied");
    server.stop();

    // A socket of somebody else in a directory where only its owner may remove it.
    directory.mode(0o1777);
    let server = serve_at(&directory.url(), "");
    server.process.signal("KILL");
    server.process.finish(PATIENCE);
    as_user(other, &serve).finish(PATIENCE).expect_code(3).expect("socket of user 0").expect("neither use nor remove");
}

/// As containers have them: there a name is found by nobody outside, and a path by whoever can reach it.
#[test]
fn processes_in_other_namespaces_find_each_other_by_a_path() {
    let _turn = alone();
    if !Command::new("unshare").args(["-n", "-p", "-f", "true"]).status().is_ok_and(|status| status.success()) {
        return println!("skipped: needs root and unshare, for network and process namespaces");
    }
    let directory = Directory::new();
    for (url, status) in [(shm_name(), 1), (directory.url(), 0)] {
        let server = serve_at(&url, "");
        let mut unshare = Command::new("unshare");
        unshare.args(["-n", "-p", "-f", SPINWIRE, "echo", "ping", &url, "--core", &cpu(1).to_string()]);
        unshare.args(["--count", "100", "--size", "2000", "--verify"]);
        Running::command(unshare).finish(PATIENCE).expect_code(status);
        server.stop();
    }
}
