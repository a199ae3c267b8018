//! Places at a tracker, a proxy and a server: a peer without a proof cannot keep one when others
//! want it.

use kernpack_rpc::wire::{Key, greet};
use kernpack_skip::skip;

use super::*;

/// A tracker and a proxy that listen for all machines, with few places; strangers come from `::1`,
/// others from `127.0.0.1`. `None` without IPv6.
fn of_all(connections: usize) -> Option<(Tracker, Proxy)> {
    let mut options = TrackerOptions::default();
    (options.listen.host, options.listen.port, options.listen.insecure) = ("::".to_owned(), 0, true);
    options.connections = connections;
    let tracker = Tracker::start(options).ok()?;
    if TcpStream::connect(("::1", tracker.address().port())).is_err() {
        return None;
    }
    let mut options = ProxyOptions::default();
    (options.listen.host, options.listen.port, options.listen.insecure) = ("::".to_owned(), 0, true);
    options.connections = connections;
    options.wait = TIME;
    Some((tracker, Proxy::start(options).unwrap()))
}

#[test]
fn strangers_with_requests_and_offers_give_way() {
    let Some((tracker, proxy)) = of_all(8) else {
        return skip("this machine has no IPv6");
    };
    let mut strangers = Vec::new();
    for index in 0..12 {
        let mut stream = TcpStream::connect(("::1", tracker.address().port())).unwrap();
        stream.set_read_timeout(Some(TIME)).unwrap();
        let _ = stream.write_all(&TRACKER_MAGIC.to_le_bytes());
        let text = if index % 2 == 0 { "[4,\"nokey\",\"\",0]" } else { "[3,\"pi\",[1,\"pi:1\"],null]" };
        let _ = stream.write_all(&message(text));
        let mut other = TcpStream::connect(("::1", proxy.address().port())).unwrap();
        let _ = other.write_all(&[&MAGIC.to_le_bytes()[..], &message(&format!("server:k{index}"))].concat());
        strangers.extend([stream, other]);
    }
    let end = Instant::now() + TIME;
    while proxy.waiting_servers() < 7 {
        assert!(Instant::now() < end, "{} wait", proxy.waiting_servers());
        thread::sleep(Duration::from_millis(5));
    }
    // From another address everything works: a server, and a client that waits for it.
    let local = |port: u16| format!("127.0.0.1:{port}");
    let (tracker, proxy) = (local(tracker.address().port()), local(proxy.address().port()));
    let offered = server(|options| {
        options.key = "board".to_owned();
        options.tracker = Some(Place::new(tracker.as_str()));
    });
    // Two that come at the same moment may displace each other, as strangers: they try again.
    let again = |what: &str, comes_in: &dyn Fn() -> kernpack::Result<kernpack_rpc::Session>| {
        let end = Instant::now() + TIME;
        let mut problem = String::new();
        while Instant::now() < end {
            match comes_in() {
                Ok(session) => return assert!(session.is_open(), "{what}"),
                Err(error) => problem = error.to_string(),
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("{what}: {problem}");
    };
    let client = TrackerClient::new(tracker.as_str());
    again("a session of the tracker", &|| client.request("board", 0, TIME)?.connect().open());
    let _behind = server(|options| {
        options.key = "board".to_owned();
        options.proxy = Some(Place::new(proxy.as_str()));
    });
    again("a session through the proxy", &|| connect(proxy.as_str()).key("board").connect_timeout(TIME).open());
    let end = Instant::now() + TIME;
    while !offered.is_registered() {
        assert!(Instant::now() < end, "it does not come again");
        thread::sleep(Duration::from_millis(50));
    }
    drop(strangers);
}

#[test]
fn clients_that_are_refused_have_no_slot_for_ever() {
    let server = server(|options| options.sessions = 1);
    let session = connect(server.address().to_string()).open().unwrap();
    // The server is full, and would report that to each when it begins its session, which none of
    // these does.
    let refused: Vec<TcpStream> = (0..70)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            let _ = greet(&mut stream, &Key::client(""), TIME).unwrap();
            stream.set_read_timeout(Some(TIME)).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    assert_eq!((&refused[0]).read(&mut [0; 4]).unwrap_or(0), 0, "the oldest gives way");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let error = connect(server.address().to_string()).open().unwrap_err();
    assert!(error.message().contains("the server has 1 sessions, its limit"), "{error}");
    drop(refused);
    drop(session);
}

#[test]
fn keys_of_strangers_hide_no_servers() {
    let mut options = TrackerOptions::default();
    options.listen.port = 0;
    let tracker = Tracker::start(options).unwrap();
    // Each offers as many keys as it may, with names that sort first.
    let mut strangers = Vec::new();
    for index in 0..8 {
        let mut stream = TcpStream::connect(tracker.address()).unwrap();
        stream.set_read_timeout(Some(TIME)).unwrap();
        stream.write_all(&TRACKER_MAGIC.to_le_bytes()).unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        let name = |number: usize| format!("a{index}-{number}-{}", "x".repeat(230));
        let asked: Vec<u8> =
            (0..1000).flat_map(|number| message(&format!("[3,\"{}\",[1,\"m\"],null]", name(number)))).collect();
        stream.write_all(&asked).unwrap();
        // Each is answered with `0` and its length.
        stream.read_exact(&mut [0; 5 * 1000]).unwrap();
        strangers.push(stream);
    }
    let _server = server(|options| {
        options.key = "pi".to_owned();
        options.tracker = Some(Place::new(tracker.address().to_string()));
        options.sessions = 1;
    });
    let client = TrackerClient::new(tracker.address().to_string());
    let end = Instant::now() + TIME;
    loop {
        let summary = client.summary().unwrap();
        assert!(summary.left_out > 0, "8000 keys of 240 letters fit into no message");
        if summary.servers.len() == 1 && summary.keys.iter().any(|key| key.key == "pi" && key.free == 1) {
            break;
        }
        assert!(Instant::now() < end, "{} keys, {} left out", summary.keys.len(), summary.left_out);
        thread::sleep(Duration::from_millis(20));
    }
    assert!(client.request("pi", 0, TIME).unwrap().connect().open().unwrap().is_open());
    // The end of a stranger has no effect.
    drop(strangers);
    while client.summary().unwrap().left_out > 0 {
        assert!(Instant::now() < end + TIME, "they are not forgotten");
        thread::sleep(Duration::from_millis(20));
    }
}
