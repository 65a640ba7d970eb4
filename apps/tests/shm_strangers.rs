//! Whoever finds a server's name and says nothing there keeps nobody out.

mod common;

use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use common::fabric::{Fabric, alone, cpu, shm_name};
use common::{PATIENCE, Running, SPINWIRE};

/// A socket that is connected to an abstract name, and silent.
fn stranger(url: &str) -> OwnedFd {
    let name = format!("spinwire/{}", url.strip_prefix("shm://").unwrap());
    // SAFETY: plain calls on a descriptor and an address that are ours.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let fd_owned = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // The first byte stays 0: the name is abstract.
        for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        assert_eq!(
            libc::connect(fd, (&raw const address).cast(), len as u32),
            0,
            "{}",
            std::io::Error::last_os_error()
        );
        fd_owned
    }
}

/// Far more of them than the server may have files: each had a descriptor for two seconds, and a client had to wait for one.
#[test]
fn silent_strangers_do_not_use_up_the_open_files_of_a_server() {
    let _turn = alone();
    let url = shm_name();
    let mut shell = Command::new("sh");
    let serve = format!("echo serve --listen {url} --core {} --connections-max 4", cpu(0));
    shell.args(["-c", &format!("ulimit -n 64 && exec {SPINWIRE} {serve}")]);
    let mut server = Running::command(shell);
    server.wait_for("listening on", PATIENCE);
    let strangers: Vec<_> = (0..200).map(|_| stranger(&url)).collect();
    let begun = Instant::now();
    let (ended, _) = Fabric::Shm.ping(&url, "--count 100 --warmup 1 --verify");
    let took = begun.elapsed();
    ended.expect_code(0);
    assert!(took < Duration::from_millis(1_500), "a client waited for {} strangers: {took:?}", strangers.len());
    server.signal("INT");
    server.finish(PATIENCE).expect_code(0);
}
