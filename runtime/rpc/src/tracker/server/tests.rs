use super::*;

#[test]
fn answers_to_what_peers_send() {
    let magic = 0x2F271_i32.to_le_bytes();
    let message = |text: &str| [&(text.len() as i32).to_le_bytes()[..], text.as_bytes()].concat();
    let asked = [&magic[..], &message("[1]"), &message(r#"[3,"pi",[9090,"pi:1"],null]"#), &message("[7]")].concat();
    let expected = [&magic[..], &message("0"), &message("0"), &message(r#"["pi:1"]"#)].concat();
    assert_eq!(answers_to(&asked).unwrap(), expected);
    // Messages after an invalid one are not answered.
    for wrong in ["[99]", "[]", "7", r#"[3,"two words",[1,"k"]]"#, r#"[3,"pi",[70000,"k"]]"#, r#"[4,""]"#] {
        let bytes = [&magic[..], &message(wrong), &message("[1]")].concat();
        assert_eq!(answers_to(&bytes).unwrap(), magic, "{wrong}");
    }
    assert_eq!(answers_to(b"GET / HTTP/1.1").unwrap(), b"");
    assert_eq!(answers_to(b"").unwrap(), b"");
}

#[test]
fn what_a_peer_has_proved_holds() {
    use super::super::client::open;
    use crate::Place;
    use crate::wire::proof::Relation::{ClientTracker, ServerTracker};
    let mut options = TrackerOptions::default();
    options.listen.port = 0;
    options.listen.token = Some("c2VjcmV0".to_owned());
    let tracker = Tracker::start(options).unwrap();
    let place = Place::new(tracker.address().to_string()).token("c2VjcmV0");
    let time = std::time::Duration::from_secs(20);
    let put = json!([Code::Put as i64, "pi", [9090, "pi:1"], null]);
    let update = json!([Code::UpdateInfo as i64, {"key": "server:pi", "addr": [null, 9090]}]);
    let request = json!([Code::Request as i64, "pi", "", 0]);
    let ping = json!([Code::Ping as i64]);
    for (relation, message, is_taken) in [
        (ServerTracker, &put, true),
        (ServerTracker, &update, true),
        (ServerTracker, &request, false),
        (ServerTracker, &ping, true),
        (ClientTracker, &put, false),
        (ClientTracker, &update, false),
        (ClientTracker, &ping, true),
    ] {
        let mut line = open(&place, relation, time).unwrap();
        assert_eq!(line.ask(message, time).is_ok(), is_taken, "{relation:?}: {message}");
    }
    // The offering server has gone; another one comes, and the client gets it.
    let mut server = open(&place, ServerTracker, time).unwrap();
    let _ = server.ask(&put, time).unwrap();
    let answer = open(&place, ClientTracker, time).unwrap().ask(&request, time).unwrap();
    assert_eq!(answer[0], 0, "{answer}");
}
