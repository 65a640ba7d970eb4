//! Setting up on a real device: limits, addresses, steps out of order, and taking down half-made things.

use std::time::{Duration, Instant};

use crate::common::{alone, at, kernel_objects, lab, open_descriptors, small_pages};
use spinwire_linux::cm::address::{AddressError, usable_devices};
use spinwire_linux::cm::{
    Channel, CmId, Code, ControlOptions, Endpoint, Event, EventKind, IdError, LocateError, Step, VerbsControl,
    device_for_connecting, device_for_listening,
};
use spinwire_linux::runtime::{LinkOptions, Size};
use spinwire_linux::verbs::{Device, LinkLayer, QueueError, QueueOptions, Queues, Region};
use spinwire_linux::{Errno, failed_destroys};

fn device() -> Device {
    device_for_listening(at(lab("LAB_ADDR0"), 0)).unwrap()
}

fn options() -> QueueOptions {
    QueueOptions { connections: 2, depth: Size::Asked(8), inline: Size::Default(64), one_sided: 0 }
}

/// Waits for the next event of a channel.
fn next(channel: &Channel) -> Event {
    let started = Instant::now();
    loop {
        match channel.next().unwrap() {
            Some(event) => return event,
            None => assert!(started.elapsed() < Duration::from_secs(10), "no event"),
        }
    }
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_device_says_what_it_is() {
    let _alone = alone();
    let device = device();
    assert_eq!(device.name(), std::env::var("LAB_DEV0").unwrap());
    assert!(device.is_software());
    let port = device.port(1).unwrap();
    assert!(port.active);
    assert_eq!((port.mtu_bytes, port.link_layer), (4_096, Code::Known(LinkLayer::Ethernet)));
    assert_eq!(port.max_message_bytes, 8 << 20);
    assert!(device.port(9).is_err());
    assert_eq!(device.next_async_event().unwrap().map(|event| event.kind.to_string()), None);
    let usable = usable_devices();
    assert!(usable.iter().any(|u| u.device == device.name() && u.addresses.contains(&lab("LAB_ADDR0"))), "{usable:?}");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn sizes_beyond_the_device_name_option_value_and_maximum() {
    let _alone = alone();
    let device = device();
    let inline = Queues::new(&device, &QueueOptions { inline: Size::Asked(4_096), ..options() });
    let Err(QueueError::Qp(error)) = inline else { panic!("4,096 bytes inline were accepted") };
    assert_eq!(error.to_string(), "inline 4096: rxe0 takes at most 512 (found by trying)");

    let lowered = Queues::new(&device, &QueueOptions { inline: Size::Default(4_096), ..options() }).unwrap();
    assert_eq!(lowered.inline_bytes(), 512);

    let deep = Queues::new(&device, &QueueOptions { depth: Size::Asked(4_000), ..options() });
    let Err(QueueError::TooLarge(error)) = deep else { panic!("a depth of 4,000 on a small queue was accepted") };
    assert!(error.to_string().starts_with("depth 4000: rxe0 takes at most "), "{error}");
    assert!(Queues::new(&device, &QueueOptions { depth: Size::Asked(error.max), ..options() }).is_ok());
    assert_eq!(failed_destroys(), 0);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn an_address_without_a_device_is_told_where_to_go() {
    let _alone = alone();
    let address = at(lab("LAB_NORDMA_ADDR"), 7_471);
    let netdev = std::env::var("LAB_NORDMA_NETDEV").unwrap();
    let check = |error: &AddressError| {
        let AddressError::NoDevice { interface, usable, .. } = error else { panic!("{error}") };
        assert_eq!(*interface, netdev);
        assert_eq!(usable.len(), 2, "{error}");
        println!("{error}");
    };
    let Err(LocateError::Address(error)) = device_for_listening(address) else { panic!("a device was found") };
    check(&error);
    let mut control = VerbsControl::new(&device(), 1, ControlOptions::default()).unwrap();
    check(&control.listen(address).unwrap_err());
    // Binding to loopback succeeds in the library, and gives an id without a device.
    let Err(LocateError::Address(error)) = device_for_listening("127.0.0.1:7471".parse().unwrap()) else {
        panic!("a device was found for loopback")
    };
    assert!(error.to_string().contains("interface lo has no rdma device"), "{error}");
    let foreign = control.listen("203.0.113.77:7471".parse().unwrap()).unwrap_err();
    assert!(matches!(foreign, AddressError::NotOurs { .. }), "{foreign}");
    let source = Some(address);
    let found = device_for_connecting(Endpoint { target: at(lab("LAB_ADDR1"), 1), source }, Duration::from_secs(2));
    println!("{}", found.map(|device| device.name().to_owned()).unwrap_err());
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_port_in_use_is_said_as_such() {
    let _alone = alone();
    let mut control = VerbsControl::new(&device(), 1, ControlOptions::default()).unwrap();
    let listener = control.listen(at(lab("LAB_ADDR0"), 0)).unwrap();
    let taken = control.listener_address(listener).unwrap();
    let error = control.listen(taken).unwrap_err();
    assert_eq!(error, AddressError::InUse { address: taken });
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn an_address_that_cannot_be_reached_is_an_error_within_its_time() {
    let _alone = alone();
    let limit = Duration::from_secs(2);
    for name in ["LAB_NONEIGH_ADDR", "LAB_NOROUTE_ADDR"] {
        let started = Instant::now();
        let endpoint = Endpoint { target: at(lab(name), 7_471), source: None };
        let Err(error) = device_for_connecting(endpoint, limit) else { panic!("{name} was reached") };
        println!("{name} after {:?}: {error}", started.elapsed());
        assert!(started.elapsed() < limit + Duration::from_secs(2), "{name}: {:?}", started.elapsed());
    }
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn calls_out_of_order_are_errors_and_never_reach_the_library() {
    let _alone = alone();
    let channel = Channel::open().unwrap();
    let link = LinkOptions::default();
    let mut id = CmId::new(&channel, 1).unwrap();
    let wrong = |result: Result<(), IdError>| assert!(matches!(result, Err(IdError::WrongStep { .. })), "{result:?}");
    wrong(id.resolve_route(Duration::from_secs(1)));
    wrong(id.connect(&link, &[]));
    wrong(id.accept(&link, &[]));
    wrong(id.reject(&[]));
    wrong(id.listen(1));
    wrong(id.disconnect());
    wrong(id.ready_for_qp());
    id.resolve_address(None, at(lab("LAB_ADDR1"), 1), Duration::from_secs(2)).unwrap();
    wrong(id.resolve_route(Duration::from_secs(1)));
    wrong(id.connect(&link, &[]));
    wrong(id.ready_for_qp());
    let event = next(&channel);
    assert_eq!((event.token, event.kind), (1, Code::Known(EventKind::AddrResolved)));
    id.on_event(event.kind);
    assert_eq!(id.step(), Step::AddressResolved);
    id.ready_for_qp().unwrap();
    wrong(id.connect(&link, &[]));
    assert_eq!(channel.counts(), (1, 1));
}

/// A listener and an id that may connect to it.
fn pair(channel: &Channel) -> (CmId, CmId) {
    let mut listener = CmId::new(channel, 10).unwrap();
    listener.bind(at(lab("LAB_ADDR1"), 0)).unwrap();
    listener.listen(4).unwrap();
    let mut id = CmId::new(channel, 20).unwrap();
    let source = Some(at(lab("LAB_ADDR0"), 0));
    id.resolve_address(source, listener.local_address().unwrap(), Duration::from_secs(2)).unwrap();
    id.on_event(next(channel).kind);
    id.resolve_route(Duration::from_secs(2)).unwrap();
    id.on_event(next(channel).kind);
    assert_eq!(id.step(), Step::RouteResolved);
    (listener, id)
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_refusal_carries_its_words_and_a_dropped_request_is_one() {
    let _alone = alone();
    let channel = Channel::open().unwrap();
    for words in [Some(b"table full"), None] {
        let (_listener, mut id) = pair(&channel);
        id.connect(&LinkOptions::default(), b"hello").unwrap();
        let mut request = next(&channel);
        assert_eq!((request.token, request.kind), (10, Code::Known(EventKind::ConnectRequest)));
        assert_eq!(&request.private_data()[..6], b"hello\0");
        assert_eq!(request.private_data().len(), 56);
        let mut incoming = request.request.take().unwrap();
        assert_eq!(incoming.peer_address().unwrap().ip(), lab("LAB_ADDR0"));
        match words {
            Some(words) => incoming.reject(words).unwrap(),
            None => drop(incoming),
        }
        let answer = next(&channel);
        assert_eq!((answer.token, answer.kind, answer.status), (20, Code::Known(EventKind::Rejected), 28));
        if let Some(words) = words {
            assert_eq!(&answer.private_data()[..words.len()], words);
        }
        id.on_event(answer.kind);
        assert_eq!(id.step(), Step::Down);
        id.disconnect().unwrap();
    }
    let (fetched, acked) = channel.counts();
    assert_eq!(fetched, acked);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn too_much_private_data_is_an_error_at_the_call() {
    let _alone = alone();
    let channel = Channel::open().unwrap();
    let (_listener, mut id) = pair(&channel);
    let error = id.connect(&LinkOptions::default(), &[1; 57]).unwrap_err();
    assert!(matches!(error, IdError::Call(call) if call.errno == Errno(22)), "{error}");
    id.connect(&LinkOptions::default(), &[1; 56]).unwrap();
    assert_eq!(next(&channel).private_data(), &[1; 56]);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn half_made_things_go_away_whatever_is_dropped_first() {
    let _alone = alone();
    drop(Queues::new(&device(), &options()).unwrap());
    // librdmacm makes a protection domain of its own for a device at its first use, and keeps it while we hold the device.
    drop(pair(&Channel::open().unwrap()));
    let (objects, descriptors) = (kernel_objects(), open_descriptors());
    for order in 0..6 {
        let device = device();
        let queues = Queues::new(&device, &options()).unwrap();
        let region = Region::register(queues.pd(), small_pages(1 << 16)).unwrap();
        let channel = Channel::open().unwrap();
        let (listener, id) = pair(&channel);
        assert_ne!(kernel_objects(), objects, "the kernel counts what was made");
        match order {
            0 => drop((device, queues, region, channel, listener, id)),
            1 => drop((id, listener, channel, region, queues, device)),
            2 => drop((channel, queues, id, region, device, listener)),
            3 => drop((queues, id, device, channel, listener, region)),
            4 => drop((region, channel, id, queues, listener, device)),
            _ => drop((listener, device, region, id, channel, queues)),
        }
        assert_eq!((kernel_objects(), open_descriptors()), (objects.clone(), descriptors), "order {order}");
    }
    assert_eq!(failed_destroys(), 0);
}
