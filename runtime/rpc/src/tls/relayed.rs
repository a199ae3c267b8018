//! Tests of relay attacks: a program between two TLS connections cannot forward the proof of a
//! token.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Fingerprint, Identity, TlsAcceptor, TlsConnector, TlsStream, Trust};
use crate::wire::proof::Relation;
use crate::wire::{Hello, Key, Transport, answer, challenge, greet, hear, offer};

const TIME: Duration = Duration::from_secs(30);
const TOKEN: &str = "c2VjcmV0IHRva2Vu";

fn acceptor(name: &str) -> (TlsAcceptor, Fingerprint) {
    let folder = std::env::temp_dir().join(format!("kernpack-rpc-relayed-{name}-{}", std::process::id()));
    let identity = Identity::generate(&folder, &["localhost".to_owned()]).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let fingerprint = identity.fingerprint();
    (TlsAcceptor::new(identity).unwrap(), fingerprint)
}

fn connect(address: SocketAddr, fingerprint: Fingerprint) -> TlsStream {
    let connector = TlsConnector::new(&Trust::Fingerprint(fingerprint)).unwrap();
    connector.connect("localhost", TcpStream::connect(address).unwrap(), TIME).unwrap()
}

/// Starts a listener that lets one peer prove the token; the result is true if it did.
fn asking(acceptor: TlsAcceptor, relation: Relation) -> (SocketAddr, JoinHandle<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = thread::spawn(move || {
        let mut stream = acceptor.accept(listener.accept().unwrap().0, TIME).unwrap();
        let key = hear(&mut stream, TIME).unwrap();
        let caller = (&key, key.nonce.as_deref().unwrap());
        let is_proved = challenge(&mut stream, caller, relation, TOKEN, TIME).unwrap_or(false);
        is_proved && answer(&mut stream, Hello::Welcome, &Key::server("pi"), TIME).is_ok()
    });
    (address, asked)
}

/// Starts an attacker between the two sides, with a certificate that the client trusts: forwards
/// all bytes of both, until one ends.
fn between(acceptor: TlsAcceptor, target: SocketAddr, fingerprint: Fingerprint) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let relayed = thread::spawn(move || {
        let mut streams = [acceptor.accept(listener.accept().unwrap().0, TIME).unwrap(), connect(target, fingerprint)];
        let moment = Some(Duration::from_millis(10));
        streams.iter_mut().for_each(|stream| stream.set_timeouts(moment, Some(TIME)).unwrap());
        let mut bytes = [0; 4096];
        loop {
            for from in 0..2 {
                match streams[from].read(&mut bytes) {
                    Ok(0) => return,
                    Ok(count) if streams[1 - from].write_all(&bytes[..count]).is_err() => return,
                    Ok(_) => {}
                    Err(error)
                        if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
                    Err(_) => return,
                }
            }
        }
    });
    (address, relayed)
}

#[test]
fn both_ends_have_the_same_channel_and_no_others() {
    let (acceptor, fingerprint) = acceptor("ends");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pair = || {
        thread::scope(|threads| {
            let client = threads.spawn(|| connect(address, fingerprint).channel());
            let server = acceptor.accept(listener.accept().unwrap().0, TIME).unwrap().channel();
            (client.join().unwrap().unwrap(), server.unwrap())
        })
    };
    let (first, second) = (pair(), pair());
    assert!(first.0 == first.1 && second.0 == second.1 && first.0 != second.0);
}

#[test]
fn a_proof_of_one_tls_connection_is_none_of_another() {
    for relation in [Relation::ClientServer, Relation::ServerProxy] {
        for is_relayed in [false, true] {
            let (own, fingerprint) = acceptor("server");
            let (address, asked) = asking(own, relation);
            let (stranger, of_stranger) = acceptor("stranger");
            let (address, fingerprint, relayed) = match is_relayed {
                false => (address, fingerprint, None),
                true => {
                    let (address, relayed) = between(stranger, address, fingerprint);
                    (address, of_stranger, Some(relayed))
                }
            };
            let mut stream = connect(address, fingerprint);
            let token = Some(TOKEN.to_owned());
            let met = match relation {
                Relation::ClientServer => greet(&mut stream, &Key { token, ..Key::client("pi") }, TIME).map(drop),
                _ => offer(&mut stream, &Key { token, ..Key::server("pi") }, TIME),
            };
            drop(stream);
            assert_eq!((met.is_ok(), asked.join().unwrap()), (!is_relayed, !is_relayed), "{relation:?}: {met:?}");
            relayed.into_iter().for_each(|relayed| relayed.join().unwrap());
        }
    }
}
