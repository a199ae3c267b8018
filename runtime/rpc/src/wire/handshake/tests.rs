use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use super::*;

const TIME: Duration = Duration::from_secs(20);

fn hello(length: i32, key: &[u8]) -> Vec<u8> {
    [&MAGIC.to_le_bytes()[..], &length.to_le_bytes(), key].concat()
}

#[test]
fn both_sides_agree() {
    let (mut client, mut server) = UnixStream::pair().unwrap();
    let served = thread::spawn(move || {
        let key = hear(&mut server, TIME).unwrap();
        answer(&mut server, Hello::Welcome, &Key::server("pi"), TIME).unwrap();
        key
    });
    let sent = Key { timeout: Some(Duration::from_secs(60)), ..Key::client("pi") };
    assert_eq!(greet(&mut client, &sent, TIME).unwrap(), Key::server("pi"));
    assert_eq!(served.join().unwrap(), sent);
}

#[test]
fn bytes_of_a_client() {
    let (mut client, mut server) = UnixStream::pair().unwrap();
    client.write_all(&[hello(20, b"client:a -timeout=60"), b"next".to_vec()].concat()).unwrap();
    assert_eq!(hear(&mut server, TIME).unwrap().to_string(), "client:a -timeout=60");
    answer(&mut server, Hello::Welcome, &Key::server("a"), TIME).unwrap();
    let mut rest = [0; 4];
    server.read_exact(&mut rest).unwrap();
    assert_eq!(&rest, b"next");
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply, *b"\x71\xf2\x0f\0\x08\0\0\0server:a");
}

#[test]
fn refusals() {
    for (hello, words) in [(Hello::NoMatchingKey, "another key"), (Hello::DuplicateKey, "already")] {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        answer(&mut server, hello, &Key::server(""), TIME).unwrap();
        let error = greet(&mut client, &Key::client("b"), TIME).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let (mut client, mut server) = UnixStream::pair().unwrap();
    server.write_all(b"HTTP/1.1 400 Bad Request").unwrap();
    let error = greet(&mut client, &Key::client(""), TIME).unwrap_err().to_string();
    assert!(error.contains("right port"), "{error}");
}

#[test]
fn hostile_bytes() {
    for (bytes, problem) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "begins with"),
        (hello(-1, b""), "a key of -1 bytes"),
        (hello(i32::MAX, b""), "the most is 4096"),
        (hello(3, b"\xff\xfe:"), "not UTF-8"),
        (hello(2, b"ab"), "begins with"),
        (hello(9, b"client:"), "ended in the middle"),
        (b"\x71\xf2".to_vec(), "ended in the middle"),
        (Vec::new(), "ended in the middle"),
    ] {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        client.write_all(&bytes).unwrap();
        drop(client);
        let error = hear(&mut server, TIME).unwrap_err().to_string();
        assert!(error.contains(problem), "{bytes:?}: {error}");
    }
}

#[test]
fn slow_bytes() {
    let (mut client, mut server) = UnixStream::pair().unwrap();
    let sender = thread::spawn(move || {
        // Each byte arrives in time, but the whole key does not.
        for byte in hello(20, b"client:a -timeout=60") {
            if client.write_all(&[byte]).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let error = hear(&mut server, Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, WireError::TimedOut { .. }), "{error}");
    drop(server);
    sender.join().unwrap();
}

#[test]
fn tokens_are_proved() {
    for (known, is_known) in [("c2VjcmV0", true), ("c2VjcmV1", false)] {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let served = thread::spawn(move || {
            let key = hear(&mut server, TIME).unwrap();
            assert_eq!((key.name.as_str(), &key.token), ("pi", &None), "the token is not sent");
            let caller = (&key, key.nonce.as_deref().unwrap());
            if challenge(&mut server, caller, Relation::ClientServer, "c2VjcmV0", TIME).unwrap() {
                answer(&mut server, Hello::Welcome, &Key::server("pi"), TIME).unwrap();
            }
        });
        let key = Key { token: Some(known.to_owned()), ..Key::client("pi") };
        assert_eq!(greet(&mut client, &key, TIME).ok(), is_known.then(|| Key::server("pi")), "{known}");
        served.join().unwrap();
    }
}

#[test]
fn only_a_named_proxy_asks_twice() {
    use Relation::{ClientProxiedServer, ClientProxy, ClientServer, ServerProxy};
    for (is_named, asks, problem) in [
        (false, &[ClientServer][..], ""),
        (true, &[ClientProxy], ""),
        (true, &[ClientProxiedServer], ""),
        (true, &[ClientProxy, ClientProxiedServer], ""),
        (false, &[ClientServer, ClientServer], "once more"),
        (false, &[ClientServer, ClientProxiedServer], "once more"),
        (false, &[ClientProxy], "`through_proxy()`"),
        (false, &[ClientProxiedServer], "`through_proxy()`"),
        (true, &[ClientServer], "leave out `through_proxy()`"),
        (true, &[ServerProxy], "does not prove"),
        (true, &[ClientProxy, ClientProxy], "once more"),
        (true, &[ClientProxiedServer, ClientProxiedServer], "once more"),
        (true, &[ClientProxiedServer, ClientProxy], "once more"),
    ] {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let served = thread::spawn(move || {
            let key = hear(&mut server, TIME).unwrap();
            let caller = (&key, key.nonce.as_deref().unwrap());
            for relation in asks {
                if !challenge(&mut server, caller, *relation, "c2VjcmV0", TIME).unwrap_or(false) {
                    // A wrong proof is answered, so that the client's reaction can be tested.
                    let _ = answer(&mut server, Hello::Welcome, &Key::server("pi"), TIME);
                    return;
                }
            }
            let _ = answer(&mut server, Hello::Welcome, &Key::server("pi"), TIME);
        });
        let key = Key { token: Some("c2VjcmV0".to_owned()), ..Key::client("pi") };
        let outcome = meet(&mut client, &key, TIME, is_named);
        drop(client);
        let found = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(found.contains(problem) && found.is_empty() == problem.is_empty(), "{asks:?}: {found}");
        served.join().unwrap();
    }
}

#[test]
fn a_proxy_proves_itself_to_its_server() {
    for (known, is_known) in [("c2VjcmV0", true), ("c2VjcmV1", false)] {
        let (mut server, mut proxy) = UnixStream::pair().unwrap();
        let asked = thread::spawn(move || {
            let key = hear(&mut proxy, TIME).unwrap();
            let caller = (&key, key.nonce.as_deref().unwrap());
            challenge(&mut proxy, caller, Relation::ServerProxy, "c2VjcmV0", TIME).unwrap()
        });
        let key = Key { token: Some(known.to_owned()), ..Key::server("pi") };
        assert_eq!(offer(&mut server, &key, TIME).is_ok(), is_known, "{known}");
        assert_eq!(asked.join().unwrap(), is_known);
    }
}

#[test]
fn challenges_that_trickle_in() {
    let (mut client, mut server) = UnixStream::pair().unwrap();
    let sender = thread::spawn(move || {
        let mut sent = server.write_all(&(MAGIC + CHALLENGE).to_le_bytes());
        while sent.is_ok() {
            thread::sleep(Duration::from_millis(5));
            sent = server.write_all(&[1]);
        }
    });
    let key = Key { token: Some("c2VjcmV0".to_owned()), ..Key::client("pi") };
    let error = greet(&mut client, &key, Duration::from_millis(100)).unwrap_err();
    // Four bytes of a length arrive in time, and are invalid, or the time is over.
    assert!(matches!(error, WireError::TimedOut { .. } | WireError::Protocol(_)), "{error}");
    drop(client);
    sender.join().unwrap();
}
