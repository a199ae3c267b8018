//! Ports for tests that stop listening, and then listen again or expect that nothing listens.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A free port below those that the system assigns automatically: no other socket takes it
/// meanwhile.
pub(crate) fn own_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 190) as u16 * 16;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports =
        std::iter::repeat_with(|| 29_600 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 3100).take(3100);
    ports.find(is_free).expect("a free port")
}
