//! Raw mode beside programs that know nothing of Spinwire: plain C after the rdma_cm manual pages (`ci/interop`), with one
//! receive posted at a time and connection parameters left at zero.

mod common;
mod lab;

use common::{PATIENCE, Running, Server, lab_addresses, start_ping, url};
use lab::{address_of, peers, start};

/// The port of the classic example.
const PORT: u16 = 12_345;

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn plain_programs_understand_each_other() {
    let (server, url) = c_server(500);
    c_client(&url, 500).finish(PATIENCE).expect_code(0);
    server.finish(PATIENCE).expect_code(0);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_plain_client_talks_to_our_server() {
    let server = Server::start("--raw --depth 1");
    // A second client finds the server as the first did.
    for _ in 0..2 {
        let client = c_client(&server.url, 500).finish(PATIENCE);
        client.expect_code(0).expect("500 replies, all as sent");
    }
    let server = server.stop();
    assert_eq!(server.output.matches("500 messages answered").count(), 2, "{}", server.output);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn our_client_talks_to_a_plain_server() {
    for size in [0, 1, 64, 256] {
        let (server, url) = c_server(500);
        let client = start_ping(&url, &format!("--raw --count 500 --warmup 0 --depth 1 --size {size} --verify"));
        client.finish(PATIENCE).expect_code(0);
        server.finish(PATIENCE).expect_code(0).expect("echoed 500 messages of 500");
    }
}

/// On core 0, where our servers run.
fn c_server(messages: u32) -> (Running, String) {
    let ip = lab_addresses().0;
    let mut server = on_core("0", "server", &[ip.to_string(), PORT.to_string(), messages.to_string()]);
    server.wait_for("listening on", PATIENCE);
    (server, url(ip, PORT))
}

/// On core 1, where our clients run.
fn c_client(url: &str, messages: u32) -> Running {
    let (server, source) = (address_of(url), lab_addresses().1);
    let arguments = [server.ip().to_string(), server.port().to_string(), messages.to_string(), source.to_string()];
    on_core("1", "client", &arguments)
}

/// Beside a loop that spins on the same core, each message would wait for a slice of the scheduler.
fn on_core(core: &str, name: &str, arguments: &[String]) -> Running {
    let program = peers::build(name).to_string_lossy().into_owned();
    let mut words = vec!["-c", core, &program];
    words.extend(arguments.iter().map(String::as_str));
    start("taskset", &words)
}
