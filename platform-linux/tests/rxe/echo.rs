//! Echo between two devices over the wire, through the engine: data path and connection path together.

use std::net::IpAddr;
use std::time::Duration;

use crate::common::{
    EchoClient, EchoServer, Setup, VerbsEngine, alone, at, drive, kernel_objects, lab, open_descriptors,
};
use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::id::EndpointId;
use spinwire_linux::clock::now;
use spinwire_linux::cm::{ControlOptions, Endpoint, device_for_connecting, device_for_listening};
use spinwire_linux::failed_destroys;
use spinwire_linux::readiness::{Readiness, Wish};
use spinwire_linux::runtime::{LinkOptions, Size};
use spinwire_linux::verbs::{Device, VerbsFabric};

const LIMIT: Duration = Duration::from_secs(60);

/// The device of each end, found as a program would.
fn devices() -> (Device, Device) {
    let server = device_for_listening(at(lab("LAB_ADDR1"), 0)).unwrap();
    let endpoint = Endpoint { target: at(lab("LAB_ADDR1"), 1), source: Some(at(lab("LAB_ADDR0"), 0)) };
    let client = device_for_connecting(endpoint, Duration::from_secs(2)).unwrap();
    assert_eq!((server.name(), client.name()), ("rxe1", "rxe0"));
    (server, client)
}

fn listen_and_target(server: &mut VerbsEngine<'_>, client: &mut VerbsEngine<'_>) -> EndpointId {
    listen_and_target_at((lab("LAB_ADDR1"), lab("LAB_ADDR0")), server, client)
}

fn listen_and_target_at(
    (to, from): (IpAddr, IpAddr),
    server: &mut VerbsEngine<'_>,
    client: &mut VerbsEngine<'_>,
) -> EndpointId {
    let listener = server.control().listen(at(to, 0)).unwrap();
    let target = server.control().listener_address(listener).unwrap();
    assert_ne!(target.port(), 0);
    client.control().add_endpoint(Endpoint { target, source: Some(at(from, 0)) })
}

fn assert_clean(engine: &mut VerbsEngine<'_>) {
    let (fetched, acked) = engine.control().event_counts();
    assert_eq!(fetched, acked, "every event given back");
    assert_eq!(engine.control().counters().failures, 0, "{:?}", engine.control().last_failure());
    assert_eq!(engine.fabric().counters().failed_polls, 0);
    assert_eq!(engine.stats().releases_failed, 0);
    let (recv, send) = engine.pools();
    assert_eq!((recv.free(), send.free()), (recv.total(), send.total()), "every buffer is back");
    assert_eq!(engine.live(), 0);
    let (fabric, core) = (engine.fabric().counters(), *engine.stats());
    assert_eq!((fabric.doorbells, fabric.recvs), (core.doorbells, core.receives_posted), "one doorbell per chain");
}

/// `connections` connections echo `count` messages each; gives the reports of both ends.
fn echo(setup: Setup, connections: u32, count: u64, size: usize) -> (Vec<CloseReport>, Vec<CloseReport>) {
    let (server_device, client_device) = devices();
    setup.run(&server_device, |server| {
        setup.run(&client_device, |client| {
            let endpoint = listen_and_target(server, client);
            let (mut echo, mut caller) = (EchoServer::default(), EchoClient::new(count, size, u64::from(setup.depth)));
            for _ in 0..connections {
                client.with(|cx| cx.connect(endpoint)).unwrap();
            }
            let all = connections as usize;
            drive((server, &mut echo), (client, &mut caller), LIMIT, |echo, caller| {
                caller.closed.len() == all && echo.closed.len() == all
            });
            assert_eq!(caller.replies, count * u64::from(connections));
            assert_clean(server);
            assert_clean(client);
            println!("server {:?}", server.fabric().counters());
            println!("client {:?} {:?}", client.fabric().counters(), client.control().readiness().to_string());
            (echo.closed, caller.closed)
        })
    })
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn every_size_and_depth_comes_back_as_sent() {
    let _alone = alone();
    for depth in [1, 8, 32] {
        for size in [0, 1, 64, 1_024, 4_096] {
            let setup = Setup { depth, ..Setup::default() };
            let (server, client) = echo(setup, 1, 300, size);
            assert_eq!(client[0].reason, CloseReason::Local, "depth {depth}, {size} bytes");
            assert_eq!(server[0].reason, CloseReason::Peer, "depth {depth}, {size} bytes");
        }
    }
    assert_eq!(failed_destroys(), 0);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn large_messages_come_back_as_sent() {
    let _alone = alone();
    let setup = Setup { depth: 2, message_bytes: 1 << 20, connections: 1, ..Setup::default() };
    echo(setup, 1, 10, 1 << 20);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn many_connections_share_one_core() {
    let _alone = alone();
    let setup = Setup { depth: 4, connections: 64, message_bytes: 64, ..Setup::default() };
    let (server, client) = echo(setup, 64, 20, 64);
    assert!(client.iter().all(|report| report.reason == CloseReason::Local), "{client:?}");
    assert!(server.iter().all(|report| report.reason == CloseReason::Peer), "{server:?}");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn ipv6_works_as_well() {
    let _alone = alone();
    let (to, from) = (lab("LAB_ADDR1_V6"), lab("LAB_ADDR0_V6"));
    let server_device = device_for_listening(at(to, 0)).unwrap();
    let endpoint = Endpoint { target: at(to, 1), source: Some(at(from, 0)) };
    let client_device = device_for_connecting(endpoint, Duration::from_secs(2)).unwrap();
    assert_eq!((server_device.name(), client_device.name()), ("rxe1", "rxe0"));
    Setup::default().run(&server_device, |server| {
        Setup::default().run(&client_device, |client| {
            let endpoint = listen_and_target_at((to, from), server, client);
            let (mut echo, mut caller) = (EchoServer::default(), EchoClient::new(100, 64, 8));
            client.with(|cx| cx.connect(endpoint)).unwrap();
            drive((server, &mut echo), (client, &mut caller), LIMIT, |echo, caller| {
                caller.closed.len() == 1 && echo.closed.len() == 1
            });
            assert_eq!((caller.replies, caller.closed[0].reason), (100, CloseReason::Local));
        });
    });
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn sends_without_inline_work_too() {
    let _alone = alone();
    let setup = Setup { inline: Size::Asked(0), ..Setup::default() };
    echo(setup, 1, 300, 64);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn both_ways_of_watching_connect_and_end_connections() {
    let _alone = alone();
    for (wish, uring) in [(Wish::Best, true), (Wish::Timed(Duration::from_micros(500)), false)] {
        let control = ControlOptions { readiness: wish, ..ControlOptions::default() };
        let setup = Setup { control, ..Setup::default() };
        let (server, _) = devices();
        let used = setup.run(&server, |engine| engine.control().readiness());
        assert_eq!(used == Readiness::IoUring, uring, "{used}");
        echo(setup, 2, 20, 64);
    }
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn both_ends_are_tuned_and_none_waits_for_ever() {
    let _alone = alone();
    let link = LinkOptions {
        ack_timeout: Duration::from_millis(60),
        retries: 5,
        rnr_delay: Duration::from_micros(600),
        rnr_retries: 4,
    };
    let control = ControlOptions { link, ..ControlOptions::default() };
    let setup = Setup { control, ..Setup::default() };
    let (server_device, client_device) = devices();
    setup.run(&server_device, |server| {
        setup.run(&client_device, |client| {
            let endpoint = listen_and_target(server, client);
            let (mut echo, mut caller) = (EchoServer::default(), EchoClient::new(1, 8, 1));
            caller.close_when_done = false;
            client.with(|cx| cx.connect(endpoint)).unwrap();
            drive((server, &mut echo), (client, &mut caller), LIMIT, |_, caller| caller.replies == 1);
            let of = |fabric: &VerbsFabric<'_>, conn| fabric.qp(conn).unwrap().attributes().unwrap();
            for set in [of(server.fabric(), echo.open[0]), of(client.fabric(), caller.open[0])] {
                assert_eq!(set.rnr_delay, Duration::from_micros(640), "the next longer that exists");
                assert_eq!(set.ack_timeout, Duration::from_nanos(67_108_864), "the next longer that exists");
                assert_eq!((set.retries, set.rnr_retries), (5, 4));
            }
            client.with(|cx| cx.close_all());
            drive((server, &mut echo), (client, &mut caller), LIMIT, |echo, caller| {
                caller.closed.len() == 1 && echo.closed.len() == 1
            });
        });
    });
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn nothing_is_left_after_many_connections_came_and_went() {
    let _alone = alone();
    let setup = Setup::default();
    let (server_device, client_device) = devices();
    echo(setup, 1, 1, 8);
    let (objects, descriptors) = (kernel_objects(), open_descriptors());
    setup.run(&server_device, |server| {
        setup.run(&client_device, |client| {
            let endpoint = listen_and_target(server, client);
            let mut during = None;
            for round in 0..100 {
                let (mut echo, mut caller) = (EchoServer::default(), EchoClient::new(10, 64, 8));
                client.with(|cx| cx.connect(endpoint)).unwrap();
                drive((server, &mut echo), (client, &mut caller), LIMIT, |echo, caller| {
                    caller.closed.len() == 1 && echo.closed.len() == 1
                });
                if round % 33 == 0 {
                    let now = (kernel_objects(), open_descriptors());
                    assert_eq!(*during.get_or_insert(now.clone()), now, "round {round}");
                }
            }
            assert_clean(server);
            assert_clean(client);
        });
    });
    assert_eq!((kernel_objects(), open_descriptors()), (objects, descriptors));
    assert_eq!(failed_destroys(), 0);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn connecting_to_a_closed_port_fails_at_once_and_leaves_nothing() {
    let _alone = alone();
    let setup = Setup::default();
    let (_, client_device) = devices();
    setup.run(&client_device, |client| {
        let target = at(lab("LAB_ADDR1"), 4_791);
        let endpoint = client.control().add_endpoint(Endpoint { target, source: Some(at(lab("LAB_ADDR0"), 0)) });
        let mut during = None;
        for round in 0..100 {
            let mut caller = EchoClient::new(1, 8, 1);
            client.with(|cx| cx.connect(endpoint)).unwrap();
            let started = std::time::Instant::now();
            while caller.closed.is_empty() {
                client.turn(now(), &mut caller);
                assert!(started.elapsed() < Duration::from_secs(5), "no answer in round {round}");
            }
            assert_eq!(caller.closed[0].reason, CloseReason::NobodyListens, "round {round}");
            if round % 33 == 0 {
                let now = (kernel_objects(), open_descriptors());
                assert_eq!(*during.get_or_insert(now.clone()), now, "round {round}");
            }
        }
        assert_clean(client);
    });
    assert_eq!(failed_destroys(), 0);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn an_end_that_vanishes_is_noticed_by_the_other() {
    let _alone = alone();
    let setup = Setup::default();
    let (server_device, client_device) = devices();
    setup.run(&client_device, |client| {
        let mut caller = EchoClient::new(u64::MAX, 64, 8);
        setup.run(&server_device, |server| {
            let endpoint = listen_and_target(server, client);
            let mut echo = EchoServer::default();
            client.with(|cx| cx.connect(endpoint)).unwrap();
            drive((server, &mut echo), (client, &mut caller), LIMIT, |_, caller| caller.replies > 100);
            // The server's queue pairs and ids are now dropped in the middle of traffic, without a goodbye.
        });
        let started = std::time::Instant::now();
        while caller.closed.is_empty() {
            client.turn(now(), &mut caller);
            assert!(started.elapsed() < Duration::from_secs(5), "the client never learns of it");
        }
        println!("after {:?}: {}", started.elapsed(), caller.closed[0].reason);
        assert_clean(client);
    });
    assert_eq!(failed_destroys(), 0);
}
