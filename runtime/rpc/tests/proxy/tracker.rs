//! Proxies whose servers a tracker assigns to clients.

use std::net::{SocketAddr, TcpStream};

use kernpack_rpc::tracker::{Tracker, TrackerClient, TrackerOptions};
use kernpack_rpc::wire::offer;

use super::*;

fn tracker() -> Tracker {
    let mut options = TrackerOptions::default();
    options.listen.port = 0;
    Tracker::start(options).unwrap()
}

/// A proxy that offers its servers at a tracker.
fn proxy_of(tracker: impl ToString) -> Proxy {
    proxy(|options| options.tracker = Some(Place::new(tracker.to_string())))
}

/// A server behind a proxy.
fn server_of(proxy: &str, key: &str) -> Server {
    server(proxy, |options| options.key = key.to_owned())
}

/// The numbers of all servers, free servers and busy servers of a key.
fn status(client: &TrackerClient, key: &str) -> (usize, usize, usize) {
    let summary = client.summary().unwrap();
    let of_key = summary.keys.iter().find(|known| known.key == key);
    of_key.map_or((0, 0, 0), |known| (known.total, known.free, known.total.saturating_sub(known.free)))
}

fn session_of(client: &TrackerClient, key: &str) -> Session {
    client.request(key, 0, TIME).unwrap().connect().timeout(TIME).connect_timeout(TIME).open().unwrap()
}

#[test]
fn a_tracker_gives_servers_of_a_proxy() {
    let tracker = tracker();
    let client = TrackerClient::new(tracker.address().to_string());
    let proxy = proxy_of(tracker.address());
    let address = proxy.address().to_string();
    let (_first, second, _board) = (server_of(&address, "pi"), server_of(&address, "pi"), server_of(&address, "board"));
    wait_until("the offers", || status(&client, "pi") == (2, 2, 0) && status(&client, "board") == (1, 1, 0));
    assert!(client.summary().unwrap().servers.iter().all(|server| server.address == address));
    let found = client.request("pi", 0, TIME).unwrap();
    assert_eq!(found.address, address);
    let open = || found.connect().timeout(TIME).connect_timeout(TIME).open();
    let session = open().unwrap();
    assert_eq!(session.server_key(), "pi");
    exercise(&session);
    assert_eq!(status(&client, "pi"), (2, 1, 1));
    // A match key is valid for one session, and only a match key gets a server.
    for key in [found.match_key.as_str(), "pi", "board", "pi:0", "", ":", "none:1"] {
        let error = connect(&address).key(key).connect_timeout(TIME).open().unwrap_err();
        assert!(error.message().contains("another key than"), "{key}: {error}");
    }
    let other = session_of(&client, "pi");
    exercise(&other);
    let error = client.request("pi", 0, Duration::from_millis(200)).unwrap_err();
    assert!(error.message().contains("2 of 2 servers with this key are busy"), "{error}");
    exercise(&session_of(&client, "board"));
    // Each server returns to the proxy after its session, and is offered again.
    drop((session, other));
    wait_until("the next offers", || status(&client, "pi") == (2, 2, 0));
    // The offer of a server that is gone is withdrawn.
    drop(second);
    wait_until("the end of an offer", || status(&client, "pi") == (1, 1, 0));
    // A tracker assigns by key; a server without one, or with one that a tracker does not accept,
    // is rejected.
    for key in ["".to_owned(), "long".repeat(60)] {
        let mut nameless = TcpStream::connect(proxy.address()).unwrap();
        nameless.set_read_timeout(Some(TIME)).unwrap();
        offer(&mut nameless, &Key::server(key), TIME).unwrap();
        assert_eq!(nameless.read(&mut [0]).unwrap_or(0), 0);
    }
    drop(proxy);
    wait_until("the end of all offers", || client.summary().unwrap().servers.is_empty());
}

#[test]
fn a_tracker_that_comes_later() {
    let at = |port: u16| {
        let mut options = TrackerOptions::default();
        options.listen.port = port;
        Tracker::start(options).unwrap()
    };
    let first = at(ports::own_port());
    let place = first.address();
    let proxy = proxy_of(place);
    let address = proxy.address().to_string();
    let _server = server_of(&address, "pi");
    let client = TrackerClient::new(place.to_string());
    wait_until("the offer", || status(&client, "pi").1 == 1);
    let session = session_of(&client, "pi");
    first.stop();
    // Sessions that have begun continue.
    exercise(&session);
    let _again = at(place.port());
    drop(session);
    wait_until("the offer at the new one", || status(&client, "pi") == (1, 1, 0));
    exercise(&session_of(&client, "pi"));
}

/// A client of Apache TVM that requests servers of both keys from a tracker.
fn stock_client(tracker: SocketAddr) {
    let mut client = Stock::start(&["tracker-client", &port(tracker), "ours", "theirs"]).unwrap();
    assert_eq!(client.line(), "done");
}

#[test]
fn our_proxy_at_the_stock_tracker() {
    let Some(mut stock) = Stock::start(&["tracker"]) else { return };
    let tracker: SocketAddr = stock.line().parse().unwrap();
    let client = TrackerClient::new(tracker.to_string());
    let proxy = proxy_of(tracker);
    let _ours = server_of(&proxy.address().to_string(), "ours");
    let mut theirs = Stock::start(&["server", &port(proxy.address()), "theirs"]).unwrap();
    assert_eq!(theirs.line(), "ready");
    for key in ["ours", "theirs"] {
        wait_until("an offer", || status(&client, key) == (1, 1, 0));
        exercise(&session_of(&client, key));
    }
    stock_client(tracker);
}

#[test]
fn the_stock_proxy_at_our_tracker() {
    let tracker = tracker();
    let client = TrackerClient::new(tracker.address().to_string());
    let Some(mut proxy) = Stock::start(&["proxy", &port(tracker.address())]) else { return };
    let address = proxy.line();
    let _ours = server_of(&address, "ours");
    let mut theirs = Stock::start(&["server", address.rsplit(':').next().unwrap(), "theirs"]).unwrap();
    assert_eq!(theirs.line(), "ready");
    for key in ["ours", "theirs"] {
        exercise(&session_of(&client, key));
    }
    stock_client(tracker.address());
}

#[test]
fn tokens_are_proved_under_match_keys() {
    let token = "c2VjcmV0IHRva2Vu";
    let tracker = tracker();
    let client = TrackerClient::new(tracker.address().to_string());
    for of_proxy in [None, Some(token)] {
        let proxy = proxy(|options| {
            options.tracker = Some(Place::new(tracker.address().to_string()));
            options.listen.token = of_proxy.map(str::to_owned);
        });
        let address = proxy.address().to_string();
        let server = server(&address, |options| {
            options.listen.token = Some(token.to_owned());
            let mut place = Place::new(address.as_str());
            place.token = of_proxy.map(str::to_owned);
            options.proxy = Some(place);
        });
        // A proxy that asks for a token rejects others itself, and the match key is then valid for
        // 10 s more.
        let open = |token| {
            let found = client.request("pi", 0, TIME).unwrap();
            found.connect().through_proxy().token(token).timeout(TIME).connect_timeout(TIME).open()
        };
        if of_proxy.is_none() {
            assert!(open("c2VjcmV0IHRva2Vv").is_err());
        }
        // The tracker can still offer the key of the refused session until the server announces its
        // new one.
        wait_until("a session with the token", || open(token).is_ok());
        drop((server, proxy));
        wait_until("the end of the offers", || client.summary().unwrap().servers.is_empty());
    }
}
