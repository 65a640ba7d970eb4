//! What goes wrong before a connection is up: each fault with its exit status, its words and a limit on time.

mod common;
mod lab;

use std::fs;
use std::time::{Duration, Instant};

use common::{PATIENCE, SPINWIRE, Server, lab_addresses, port, start_ping, url};
use lab::{FAILED, SETUP, SOON, address_of, peers, run, spinwire, start, variable};

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn nobody_listens() {
    let client = start_ping(&unused_url(), "--count 10").finish(SOON).expect_code(FAILED);
    client.expect("nobody listens").expect("is the server running");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn an_address_without_a_route() {
    let target = variable("LAB_NOROUTE_ADDR");
    let client = spinwire(&format!("echo ping rdma://{target}:7471 --core 1")).expect_code(SETUP);
    client.expect(&target).expect("cannot be reached");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn an_address_nobody_answers_for() {
    let (target, source) = (variable("LAB_NONEIGH_ADDR"), lab_addresses().1);
    let client = spinwire(&format!("echo ping rdma://{target}:7471 --bind {source} --core 1")).expect_code(SETUP);
    client.expect(&target).expect("cannot be reached");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn an_address_without_an_rdma_device_names_the_usable_ones() {
    let address = variable("LAB_NORDMA_ADDR");
    for words in [
        format!("echo serve --listen rdma://{address}:7471 --core 0"),
        format!("echo ping {} --bind {address} --core 1", unused_url()),
    ] {
        let mut ended = spinwire(&words).expect_code(SETUP).expect("no rdma device");
        for name in ["LAB_NORDMA_NETDEV", "LAB_DEV0", "LAB_DEV1", "LAB_ADDR0", "LAB_ADDR1"] {
            ended = ended.expect(&variable(name));
        }
    }
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn an_address_of_another_machine_cannot_be_listened_on() {
    let address = variable("LAB_NOROUTE_ADDR");
    let ended = spinwire(&format!("echo serve --listen rdma://{address}:7471 --core 0")).expect_code(SETUP);
    ended.expect("no interface of this machine has that address").expect(&variable("LAB_ADDR0"));
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_port_in_use() {
    let server = Server::start("");
    let second = spinwire(&format!("echo serve --listen {} --core 1", server.url)).expect_code(SETUP);
    second.expect(&address_of(&server.url).port().to_string()).expect("in use");
    server.stop();
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_full_table_says_how_full() {
    let mut server = Server::start("--connections-max 2");
    // Few messages and a resting loop leave the core to the second client.
    let guests = start_ping(&server.url, "--connections 2 --rate 20 --seconds 60 --verify --idle block");
    server.process.wait_for("(2 now)", PATIENCE);
    let refused = start_ping(&server.url, "--count 10").finish(SOON).expect_code(FAILED);
    refused.expect("table full, 2 of 2").expect("--connections-max");
    server.process.wait_for("refused: table full, 2 of 2", PATIENCE);
    // The guests were not disturbed, and when they have left there is room again.
    guests.signal("INT");
    guests.finish(PATIENCE).expect_code(130);
    server.process.wait_for("left: closed by the peer", PATIENCE);
    server.process.wait_for("left: closed by the peer", PATIENCE);
    start_ping(&server.url, "--count 10 --connections 2").finish(PATIENCE).expect_code(0);
    server.stop();
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn another_version_is_refused_in_words() {
    let rogue = peers::build("rogue");
    let mut server = Server::start("");
    let address = address_of(&server.url);
    let (ip, port, source) = (address.ip().to_string(), address.port().to_string(), lab_addresses().1.to_string());
    let client = run(&rogue, &["version", &ip, &port, &source]).expect_code(0);
    client.expect("refusal: magic SPNW, code 2, listener 1, caller 9");
    server.process.wait_for("version mismatch: the listener speaks 1, the caller 9", PATIENCE);
    server.stop();

    let mut server = start(&rogue, &["answers-version", &ip, &port]);
    server.wait_for("listening", PATIENCE);
    let client = start_ping(&url(address.ip(), address.port()), "--count 10").finish(SOON).expect_code(FAILED);
    client.expect("the peer speaks version 9, this side version 1");
    server.finish(PATIENCE).expect_code(0);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_plain_client_at_a_spinwire_port_is_told_about_raw() {
    let server = Server::start("");
    let client = start_ping(&server.url, "--raw --count 10").finish(SOON).expect_code(FAILED);
    client.expect("refused by the peer").expect("raw");
    server.stop();
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn too_little_lockable_memory_as_a_normal_user() {
    let user = format!("--reuid={}", variable("LAB_USER"));
    let script = format!("ulimit -l 64 && exec {SPINWIRE} echo serve --listen {} --core 0 --pages 4k", unused_url());
    let words = [&user, "--regid=nogroup", "--clear-groups", "--inh-caps=-all", "bash", "-c", &script];
    let ended =
        run("setpriv", &words).expect_code(SETUP).expect("cannot lock memory").expect("64 KiB").expect("memlock");
    assert!(!ended.output.contains("panicked"), "{}", ended.output);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn without_hugepages_the_next_kind_is_taken_and_said() {
    let _none = Hugepages::set(0);
    let server = Server::start("");
    start_ping(&server.url, "--count 1000 --verify").finish(PATIENCE).expect_code(0);
    server.stop().expect("not on 2 MiB pages").expect("0 free of 0").expect("vm.nr_hugepages=");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn hugepages_asked_for_and_not_there_are_an_error() {
    let _few = Hugepages::set(1);
    let ended = spinwire(&format!("echo serve --listen {} --core 0 --pages 2m", unused_url())).expect_code(SETUP);
    ended.expect("21 wanted").expect("1 free").expect("vm.nr_hugepages=");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_core_outside_the_allowed_set_lists_the_allowed() {
    let listen = unused_url();
    let pinned = ["-c", "1", SPINWIRE, "echo", "serve", "--listen", &listen, "--core", "0"];
    let pinned = run("taskset", &pinned).expect_code(SETUP);
    pinned.expect("CPU 0").expect("outside the CPU set").expect("may use CPUs 1");
    let absent = spinwire(&format!("echo serve --listen {listen} --core 200")).expect_code(SETUP);
    absent.expect("CPU 200").expect("no such CPU").expect("may use CPUs 0-1");
    // A number no affinity mask has a bit for.
    spinwire(&format!("echo serve --listen {listen} --core 70000")).expect_code(SETUP).expect("CPU 70000");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_machine_without_rdma_is_told_what_it_lacks() {
    // In a mount namespace of its own the device files are not there, as on a machine without the modules.
    let script = format!("mount -t tmpfs none /dev/infiniband && exec {SPINWIRE} echo ping {} --core 1", unused_url());
    let ended = run("unshare", &["--mount", "bash", "-c", &script]).expect_code(SETUP);
    ended.expect("no rdma on this machine").expect("/dev/infiniband/rdma_cm");
}

/// An address of the lab with a port nobody listens on.
fn unused_url() -> String {
    url(lab_addresses().0, port())
}

/// The machine's pool of 2 MiB pages at another size until this is dropped.
struct Hugepages(String);

impl Hugepages {
    const POOL: &str = "/proc/sys/vm/nr_hugepages";

    fn set(pages: u32) -> Self {
        let before = fs::read_to_string(Self::POOL).expect("proc is mounted");
        fs::write(Self::POOL, pages.to_string()).expect("the lab's user is root");
        let pool = Self(before);
        // Pages of a process that has just ended come back a little later.
        let deadline = Instant::now() + Duration::from_secs(5);
        while lab::objects::hugepages_free() != u64::from(pages) {
            assert!(Instant::now() < deadline, "another test still holds hugepages");
            std::thread::sleep(Duration::from_millis(50));
        }
        pool
    }
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        // Should it fail, the next test that needs hugepages says so.
        let _ = fs::write(Self::POOL, &self.0);
    }
}
