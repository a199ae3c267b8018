//! The state of a tracker, as a table.

use std::collections::HashSet;
use std::fmt;

use kernpack::{Result, error};
use serde_json::{Value, json};

use super::message::shortened;

/// A connected server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// The address by which clients reach it: `host:port`.
    pub address: String,
    /// The key that it is offered under.
    pub key: String,
}

/// Servers and clients of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// The key.
    pub key: String,
    /// The number of connected servers.
    pub total: usize,
    /// The number of sessions that could begin now.
    pub free: usize,
    /// The number of waiting clients.
    pub waiting: usize,
}

/// The state of a tracker. Its text form is a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The servers, by key and address.
    pub servers: Vec<ServerStatus>,
    /// The keys.
    pub keys: Vec<KeyStatus>,
    /// The number of servers and keys for which the tracker's message has no room.
    pub left_out: usize,
}

/// The largest size of a summary as a message, with room for what surrounds it.
const MOST: usize = super::message::MOST - 256;

fn of_server(info: &Value) -> Option<ServerStatus> {
    let key = info.get("key")?.as_str()?;
    let key = key.strip_prefix("server:").unwrap_or(key).to_owned();
    let (host, port) = (info.get("addr")?.get(0)?.as_str()?, info.get("addr")?.get(1)?.as_u64()?);
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    Some(ServerStatus { address, key })
}

impl Summary {
    /// Encodes the summary as a tracker sends it, as far as a message has room: servers, then their
    /// keys, then other offered keys, then those that are only waited for. A peer that names many
    /// keys cannot hide servers.
    pub(super) fn to_json(&self, infos: Vec<Value>) -> Value {
        let (mut room, mut left_out) = (MOST, self.left_out);
        let mut fits = |bytes: usize| {
            let fits = bytes <= room;
            if fits {
                room -= bytes
            } else {
                left_out += 1
            }
            fits
        };
        let infos: Vec<Value> = infos.into_iter().filter(|info| fits(info.to_string().len() + 1)).collect();
        let named: HashSet<String> = infos.iter().filter_map(of_server).map(|server| server.key).collect();
        let mut order: Vec<&KeyStatus> = self.keys.iter().collect();
        order.sort_by_key(|key| (!named.contains(&key.key), key.free == 0));
        let mut keys = serde_json::Map::new();
        for key in order {
            let counts = json!({"free": key.free, "pending": key.waiting});
            if fits(json!(key.key).to_string().len() + counts.to_string().len() + 2) {
                let _ = keys.insert(key.key.clone(), counts);
            }
        }
        let mut all = json!({"queue_info": keys, "server_info": infos});
        if left_out > 0 {
            all["left_out"] = json!(left_out);
        }
        all
    }

    /// Decodes a tracker's answer.
    pub(super) fn from_json(value: &Value) -> Result<Self> {
        let wrong = || error!(RuntimeError, "the tracker's summary is invalid: {}", shortened(value));
        let infos = value.get("server_info").and_then(Value::as_array).ok_or_else(wrong)?;
        let mut servers: Vec<ServerStatus> = infos.iter().filter_map(of_server).collect();
        servers.sort_by(|a, b| (&a.key, &a.address).cmp(&(&b.key, &b.address)));
        let queues = value.get("queue_info").and_then(Value::as_object).ok_or_else(wrong)?;
        let mut keys = Vec::new();
        for (key, counts) in queues {
            let count =
                |name: &str| counts.get(name).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
            keys.push(KeyStatus {
                key: key.clone(),
                total: servers.iter().filter(|server| server.key == *key).count(),
                free: count("free").ok_or_else(wrong)?,
                waiting: count("pending").ok_or_else(wrong)?,
            });
        }
        keys.sort_by(|a, b| a.key.cmp(&b.key));
        let left_out = value.get("left_out").and_then(Value::as_u64).unwrap_or(0);
        Ok(Self { servers, keys, left_out: usize::try_from(left_out).unwrap_or(usize::MAX) })
    }
}

/// Writes rows in columns that are as wide as their widest cell.
fn table(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &format!("{cell:<width$}  ");
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = |row: &[&dyn fmt::Display]| row.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut rows = vec![cells(&[&"server", &"key"])];
        rows.extend(self.servers.iter().map(|server| cells(&[&server.address, &server.key])));
        table(f, &rows)?;
        writeln!(f)?;
        let mut rows = vec![cells(&[&"key", &"servers", &"free", &"busy", &"waiting"])];
        for key in &self.keys {
            let busy = key.total.saturating_sub(key.free);
            rows.push(cells(&[&key.key, &key.total, &key.free, &busy, &key.waiting]));
        }
        table(f, &rows)?;
        if self.left_out > 0 {
            writeln!(f, "\n{} more servers and keys had no room in the tracker's message", self.left_out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_as_a_table() {
        let sent = json!({
            "queue_info": {"pi": {"free": 1, "pending": 0}, "board": {"free": 0, "pending": 12}},
            "server_info": [
                {"key": "server:pi", "addr": ["192.168.0.7", 9090]},
                {"key": "server:board", "addr": ["::1", 9091]},
                {"key": "server:pi", "addr": ["192.168.0.12", 9090]},
                {"no": "server"},
            ],
        });
        let summary = Summary::from_json(&sent).unwrap();
        assert_eq!(
            summary.to_string(),
            "server             key\n\
             [::1]:9091         board\n\
             192.168.0.12:9090  pi\n\
             192.168.0.7:9090   pi\n\
             \n\
             key    servers  free  busy  waiting\n\
             board  1        0     1     12\n\
             pi     2        1     1     0\n"
        );
        for wrong in [json!(null), json!({"queue_info": []}), json!({"server_info": [], "queue_info": {"a": 1}})] {
            assert!(Summary::from_json(&wrong).unwrap_err().to_string().contains("is invalid"));
        }
    }

    #[test]
    fn a_summary_fits_into_a_message() {
        let key = |number: usize, free: usize, waiting: usize| KeyStatus {
            key: format!("{}{number}", "\u{e9}\"".repeat(80)),
            total: 0,
            free,
            waiting,
        };
        // Keys that a stranger waits for or offers come first by name, and are dropped first.
        let keys =
            (0..9000).map(|number| key(number, number % 2, 1)).chain((9000..9010).map(|number| key(number, 0, 0)));
        let sent = Summary { keys: keys.collect(), ..Summary::default() };
        let infos = (9000..9010).map(|number| json!({"key": key(number, 0, 0).key, "addr": ["192.0.2.1", number]}));
        let infos = infos.collect();
        let message = json!([0, sent.to_json(infos)]).to_string();
        assert!(message.len() <= super::super::message::MOST, "{}", message.len());
        let value: Value = serde_json::from_str(&message).unwrap();
        let got = Summary::from_json(&value[1]).unwrap();
        assert_eq!((got.servers.len(), got.keys.iter().filter(|key| key.total == 1).count()), (10, 10));
        assert_eq!((got.keys.len() + got.left_out, got.left_out > 1000), (9010, true));
        assert!(
            got.to_string()
                .ends_with(&format!("\n{} more servers and keys had no room in the tracker's message\n", got.left_out))
        );
        let all = Summary { keys: vec![key(1, 0, 1)], ..Summary::default() }.to_json(Vec::new());
        assert_eq!(all.get("left_out"), None);
    }
}
