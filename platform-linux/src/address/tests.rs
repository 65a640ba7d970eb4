use super::*;

const LIMIT: Duration = Duration::from_secs(2);

#[test]
fn numeric_addresses_need_no_look_up() {
    for (text, want) in [
        ("rdma://192.0.2.1:7471", "192.0.2.1:7471"),
        ("rdma://[2001:db8::1]:7471", "[2001:db8::1]:7471"),
        ("rdma://[fe80::1%3]:9", "[fe80::1%3]:9"),
    ] {
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!(endpoint.resolve(Duration::ZERO).unwrap(), want.parse().unwrap());
        assert_eq!(endpoint.to_string(), text);
    }
}

#[test]
fn an_interface_may_be_named() {
    let endpoint: Endpoint = "rdma://[fe80::1%lo]:7471".parse().unwrap();
    let SocketAddr::V6(v6) = endpoint.resolve(LIMIT).unwrap() else { panic!("not IPv6") };
    assert_eq!(v6.scope_id(), 1, "lo is the first interface of every Linux");
    for scope in ["no-such-if0", "../net/lo"] {
        let endpoint: Endpoint = format!("rdma://[fe80::1%{scope}]:7471").parse().unwrap();
        assert!(matches!(endpoint.resolve(LIMIT), Err(LookupError::NoInterface(_))), "{scope}");
    }
}

#[test]
fn names_are_looked_up() {
    let endpoint: Endpoint = "rdma://localhost:7471".parse().unwrap();
    assert!(endpoint.resolve(LIMIT).unwrap().ip().is_loopback());
    let slow = endpoint.resolve(Duration::ZERO);
    assert!(matches!(slow, Ok(_) | Err(LookupError::Slow { .. })), "{slow:?}");
}

#[test]
fn the_scheme_says_which_fabric() {
    for text in ["rdma://192.0.2.1:7471", "shm://echo", "shm:///run/app/echo"] {
        let address: Address = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
        assert_eq!(matches!(address, Address::Shm(_)), text.starts_with("shm"));
    }
    let error = "shm://a b".parse::<Address>().unwrap_err().to_string();
    assert!(error.contains("shm://name"), "{error}");
    assert!("tcp://a".parse::<Address>().unwrap_err().to_string().contains("shm://name"));
}

#[test]
fn what_is_no_address_is_refused_with_an_example() {
    for text in [
        "192.0.2.1:7471",
        "tcp://192.0.2.1:7471",
        "rdma://192.0.2.1",
        "rdma://192.0.2.1:70000",
        "rdma://192.0.2:7471",
        "rdma://fe80::1:7471",
        "rdma://[192.0.2.1]:7471",
        "rdma://[fe80::1%]:7471",
        "rdma://:7471",
        "rdma://a b:7471",
    ] {
        let error = text.parse::<Endpoint>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("rdma://192.0.2.1:7471"), "{error}");
    }
    assert!("eth0".parse::<SourceAddr>().is_err());
}
