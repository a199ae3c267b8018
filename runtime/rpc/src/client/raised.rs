//! Converts a server's description of an exception to an error.

use kernpack::Error;

/// The kind of error with which a server reports that a session's time is over.
const SESSION_TIMEOUT: &str = "RPCSessionTimeoutError";

/// Prefixes that stock clients put before the messages of servers.
const PASSED_ON: [&str; 2] = ["RPCError: Error caught from RPC call:\n", "Error caught from RPC call:\n"];

/// Converts a message to an error. Kernpack's servers put the kind in front (`ValueError: ...`);
/// Apache TVM's send only the message, which becomes an RPCError.
pub(super) fn raised(message: &str) -> Error {
    let mut message = message.trim_end();
    // Each server on the route to another one adds a prefix that says that it only forwards the
    // error.
    while let Some(inner) = PASSED_ON.iter().find_map(|words| message.strip_prefix(words)) {
        message = inner;
    }
    // A backtrace precedes the error itself.
    let start = match message.strip_prefix("Traceback (most recent call last):") {
        Some(_) => message.lines().skip(1).find(|line| !line.starts_with(' ') && kind_of(line).is_some()),
        None => None,
    };
    let text = start.map_or(message, |line| &message[line.as_ptr() as usize - message.as_ptr() as usize..]);
    match kind_of(text) {
        Some((kind, rest)) => Error::with_backtrace(kind, rest, ""),
        None => Error::with_backtrace("RPCError", message, ""),
    }
}

/// Returns true if the server has ended the session with this error.
pub(super) fn is_end_of_session(error: &Error) -> bool {
    error.kind() == SESSION_TIMEOUT
}

/// Splits a message into the kind in front, the name of an exception class, and the rest.
fn kind_of(text: &str) -> Option<(&str, &str)> {
    let (kind, rest) = text.split_once(':')?;
    let is_name = kind.starts_with(|letter: char| letter.is_ascii_uppercase())
        && kind.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let is_class =
        ["Error", "Exception", "Interrupt", "Iteration", "Exit", "Warning"].iter().any(|end| kind.ends_with(end));
    (is_name && is_class).then(|| (kind, rest.strip_prefix(' ').unwrap_or(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found() {
        for (message, kind, text) in [
            ("ValueError: 3 is odd", "ValueError", "3 is odd"),
            ("ValueError: two\nlines\n", "ValueError", "two\nlines"),
            ("MyOwnError: a: b", "MyOwnError", "a: b"),
            ("StopIteration: ", "StopIteration", ""),
            ("KeyError:", "KeyError", ""),
            ("RPCSessionTimeoutError: Session timeout=1", "RPCSessionTimeoutError", "Session timeout=1"),
            ("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nTypeError: no\n", "TypeError", "no"),
            ("Check failed: x == y", "RPCError", "Check failed: x == y"),
            ("lowerError: x", "RPCError", "lowerError: x"),
            ("Some Error: x", "RPCError", "Some Error: x"),
            ("", "RPCError", ""),
            ("RPCError: Error caught from RPC call:\nError caught from RPC call:\nKeyError: k", "KeyError", "k"),
        ] {
            let error = raised(message);
            assert_eq!((error.kind(), error.message()), (kind, text), "{message}");
        }
        assert!(is_end_of_session(&raised("RPCSessionTimeoutError: x")));
    }
}
