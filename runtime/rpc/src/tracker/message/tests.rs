use std::net::TcpListener;
use std::thread;

use super::*;

fn pair() -> (TcpStream, Line) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, Line::new(listener.accept().unwrap().0).unwrap())
}

#[test]
fn messages_come_as_they_were_sent() {
    let (client, mut line) = pair();
    let mut other = Line::new(client).unwrap();
    let greeted = thread::spawn(move || {
        other.greet(MESSAGE_TIME).unwrap();
        other
    });
    line.answer(MESSAGE_TIME).unwrap();
    let mut other = greeted.join().unwrap();
    let long = json!([3, "é".repeat(100_000), [1, null, -2.5], {"a": true}]);
    for message in [json!([0]), long] {
        let sent = message.clone();
        let sender = thread::spawn(move || {
            other.send(&sent).unwrap();
            other
        });
        assert_eq!(line.receive(None).unwrap(), message);
        other = sender.join().unwrap();
    }
    drop(other);
    assert!(matches!(line.receive(None), Err(WireError::Closed)));
}

#[test]
fn hostile_bytes() {
    let deep = "[".repeat(100_000);
    let with_length = |text: &[u8]| [&(text.len() as i32).to_le_bytes()[..], text].concat();
    for (bytes, problem) in [
        (i32::MAX.to_le_bytes().to_vec(), "the most is 1048576"),
        ((-1_i32).to_le_bytes().to_vec(), "a message of -1 bytes"),
        (with_length(b"[1"), "not JSON"),
        (with_length(b"\xff\xfe"), "not JSON"),
        (with_length(deep.as_bytes()), "not JSON"),
        (b"\x10\0\0\0[1]".to_vec(), "ended in the middle"),
        (b"\x10\0".to_vec(), "ended in the middle"),
    ] {
        let (mut client, mut line) = pair();
        client.write_all(&bytes).unwrap();
        drop(client);
        let error = line.receive(None).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    for (bytes, problem) in [(&b"GET / HTTP/1.1"[..], "begins with 0x2f271"), (b"\x71\xf2\x0f\0", "an RPC server")] {
        let (mut client, mut line) = pair();
        client.write_all(bytes).unwrap();
        let error = line.answer(MESSAGE_TIME).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        // A stranger learns nothing.
        drop(line);
        let mut rest = Vec::new();
        assert_eq!(client.read_to_end(&mut rest).unwrap_or(0), 0);
    }
}

#[test]
fn messages_that_trickle_in() {
    // The handshake with a token, one byte at a time: the timeout covers all of it.
    let (mut client, mut line) = pair();
    let message = json!([Code::Token as i64, "0".repeat(64), "client"]).to_string();
    let sender = thread::spawn(move || {
        let bytes = [&(message.len() as i32).to_le_bytes()[..], message.as_bytes()].concat();
        for byte in bytes.iter().cycle() {
            if client.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let begun = Instant::now();
    let error = line.challenge("c2VjcmV0", Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, WireError::TimedOut { .. }), "{error}");
    assert!(begun.elapsed() < MESSAGE_TIME / 2, "{:?}", begun.elapsed());
    line.close();
    drop(line);
    sender.join().unwrap();
}

#[test]
fn tokens_are_proved() {
    use Relation::{ClientTracker, ServerTracker};
    let tls = [Some([1; 32]), Some([2; 32])];
    for (given, relation, channels, is_known) in [
        ("c2VjcmV0", ClientTracker, [None, None], true),
        ("c2VjcmV0", ServerTracker, [tls[0], tls[0]], true),
        ("c2VjcmV1", ServerTracker, [None, None], false),
        ("c2VjcmV0", ClientTracker, tls, false),
        ("c2VjcmV0", ClientTracker, [tls[0], None], false),
        ("c2VjcmV0", ClientTracker, [None, tls[0]], false),
    ] {
        let (client, mut line) = pair();
        let mut other = Line::new(client).unwrap();
        line.set_channel(channels[0]);
        other.set_channel(channels[1]);
        let proved = thread::spawn(move || other.prove(given, relation, MESSAGE_TIME).is_ok());
        assert_eq!(line.challenge("c2VjcmV0", MESSAGE_TIME).ok(), is_known.then_some(relation));
        line.close();
        assert_eq!(proved.join().unwrap(), is_known);
    }
}
