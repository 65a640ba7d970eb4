//! A device that goes away while it is in use.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::{EchoClient, EchoServer, Setup, alone, at, drive, lab};
use spinwire_core::cm::reason::CloseReason;
use spinwire_linux::cm::{Endpoint, device_for_listening};

const CHILD: &str = "SPINWIRE_TEST_REMOVAL_CHILD";
const NAME: &str = "removal::an_unplugged_device_ends_its_connections_and_nothing_else";

fn rdma(arguments: &str) -> Child {
    Command::new("rdma").args(arguments.split(' ')).spawn().expect("rdma(8) is there")
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn an_unplugged_device_ends_its_connections_and_nothing_else() {
    if std::env::var_os(CHILD).is_some() {
        return unplug_while_in_use();
    }
    let _alone = alone();
    if has_a_device_open() {
        println!("skipped: earlier tests of this process have the device open, which keeps it from going");
        return;
    }
    // In a process of its own: the kernel finishes the removal when the last process has closed the device, and
    // librdmacm keeps it open to the end.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", NAME])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let started = Instant::now();
    while Path::new("/sys/class/infiniband/rxe1").exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "the device is never removed");
        std::thread::sleep(Duration::from_millis(50));
    }
    let netdev = std::env::var("LAB_NETDEV1").unwrap();
    assert!(rdma(&format!("link add rxe1 type rxe netdev {netdev}")).wait().unwrap().success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(device_for_listening(at(lab("LAB_ADDR1"), 0)).unwrap().name(), "rxe1", "plugged in again");
}

fn has_a_device_open() -> bool {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.any(|target| target.to_string_lossy().contains("/uverbs"))
}

fn unplug_while_in_use() {
    let server_device = device_for_listening(at(lab("LAB_ADDR1"), 0)).unwrap();
    let client_device = device_for_listening(at(lab("LAB_ADDR0"), 0)).unwrap();
    let setup = Setup::default();
    let limit = Duration::from_secs(20);
    setup.run(&client_device, |client| {
        let mut caller = EchoClient::new(u64::MAX, 64, 4);
        setup.run(&server_device, |server| {
            let mut echo = EchoServer::default();
            let listener = server.control().listen(at(lab("LAB_ADDR1"), 0)).unwrap();
            let target = server.control().listener_address(listener).unwrap();
            let endpoint = client.control().add_endpoint(Endpoint { target, source: Some(at(lab("LAB_ADDR0"), 0)) });
            client.with(|cx| cx.connect(endpoint)).unwrap();
            drive((server, &mut echo), (client, &mut caller), limit, |_, caller| caller.replies > 100);
            // Not waited for: it ends after this process.
            drop(rdma("link delete rxe1"));
            drive((server, &mut echo), (client, &mut caller), limit, |echo, caller| {
                !echo.closed.is_empty() && !caller.closed.is_empty()
            });
            println!("server: {}; client: {}", echo.closed[0].reason, caller.closed[0].reason);
            assert!(matches!(echo.closed[0].reason, CloseReason::DeviceRemoved), "{:?}", echo.closed);
            let (fetched, acked) = server.control().event_counts();
            assert_eq!(fetched, acked);
        });
        assert_eq!(client.live(), 0);
    });
}
