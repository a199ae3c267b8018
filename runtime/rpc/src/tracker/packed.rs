//! Trackers for other languages: the functions `kernpack.rpc.tracker.*`.

use std::time::Duration;

use kernpack::{Result, error, packed_func};

use super::TrackerClient;

fn client(address: &str, token: Option<&str>, fingerprint: Option<&str>) -> Result<TrackerClient> {
    let mut client = TrackerClient::new(address);
    if let Some(token) = token {
        client = client.token(token);
    }
    match fingerprint {
        None => Ok(client),
        Some(fingerprint) => with_tls(client, fingerprint),
    }
}

#[cfg(feature = "tls")]
fn with_tls(client: TrackerClient, fingerprint: &str) -> Result<TrackerClient> {
    Ok(client.tls(crate::tls::Trust::Fingerprint(fingerprint.parse()?)))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: TrackerClient, _: &str) -> Result<TrackerClient> {
    Err(error!(RuntimeError, "this library was built without TLS: give its dependency kernpack-rpc the feature `tls`"))
}

/// Waits for a server of a key, at most `timeout` seconds: returns its address, and the key to
/// connect with, which is valid for one session.
#[packed_func(name = "kernpack.rpc.tracker.request")]
fn request(
    address: &str,
    key: &str,
    priority: i64,
    timeout: f64,
    token: Option<&str>,
    fingerprint: Option<&str>,
) -> Result<(String, String)> {
    let time = Duration::try_from_secs_f64(timeout).ok().filter(|time| !time.is_zero());
    let time =
        time.ok_or_else(|| error!(ValueError, "`timeout` is a number of seconds greater than 0, got {timeout}"))?;
    let found = client(address, token, fingerprint)?.request(key, priority, time)?;
    Ok((found.address, found.match_key))
}

/// The state of a tracker, as a table.
#[packed_func(name = "kernpack.rpc.tracker.summary")]
fn summary(address: &str, token: Option<&str>, fingerprint: Option<&str>) -> Result<String> {
    Ok(client(address, token, fingerprint)?.summary()?.to_string())
}
