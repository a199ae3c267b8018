use super::*;

#[test]
fn answers_to_what_peers_send() {
    let magic = 0x2F271_i32.to_le_bytes();
    let message = |text: &str| [&(text.len() as i32).to_le_bytes()[..], text.as_bytes()].concat();
    let asked = [&magic[..], &message("[1]"), &message(r#"[3,"pi",[9090,"pi:1"],null]"#), &message("[7]")].concat();
    let expected = [&magic[..], &message("0"), &message("0"), &message(r#"["pi:1"]"#)].concat();
    assert_eq!(answers_to(&asked).unwrap(), expected);
    // What follows something wrong is not answered.
    for wrong in ["[99]", "[]", "7", r#"[3,"two words",[1,"k"]]"#, r#"[3,"pi",[70000,"k"]]"#, r#"[4,""]"#] {
        let bytes = [&magic[..], &message(wrong), &message("[1]")].concat();
        assert_eq!(answers_to(&bytes).unwrap(), magic, "{wrong}");
    }
    assert_eq!(answers_to(b"GET / HTTP/1.1").unwrap(), b"");
    assert_eq!(answers_to(b"").unwrap(), b"");
}
