use crate::json::{parse, write};

/// Parses a text, and writes the result on one line; or returns the error.
fn round(text: &[u8]) -> String {
    match parse(text).and_then(|value| write(&value, 0)) {
        Ok(text) => String::from_utf8(text).unwrap(),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        assert_eq!(round(text.as_bytes()), *expected, "{text:?}");
    }
}

#[test]
fn values() {
    check(&[
        ("null", "null"),
        (" true\n", "true"),
        ("\t\r false ", "false"),
        ("-12", "-12"),
        ("1e2", "100.0"),
        ("0.1", "0.10000000000000001"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9.2233720368547758e+18"),
        ("123456789012345678901", "1.2345678901234568e+20"),
        ("[NaN,Infinity,-Infinity]", "[NaN,Infinity,-Infinity]"),
        ("[]", "[]"),
        ("[ ]", "[]"),
        ("{}", "{}"),
        ("{ }", "{}"),
        (r#"[1, "a" ,null,[true,{}] ]"#, r#"[1,"a",null,[true,{}]]"#),
        (r#"{"a":1 , "b" : {"c":[2]}}"#, r#"{"a":1,"b":{"c":[2]}}"#),
        // The following texts are not JSON, but numbers to C.
        ("[01,+1,1.,.5,-.5]", "[1,1,1.0,0.5,-0.5]"),
    ]);
}

#[test]
fn of_equal_names_the_last_counts() {
    check(&[
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
        // From four entries on it also becomes the newest.
        (r#"{"a":1,"b":2,"c":3,"a":4}"#, r#"{"b":2,"c":3,"a":4}"#),
        (r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"b":6}"#, r#"{"a":1,"c":3,"d":4,"e":5,"b":6}"#),
    ]);
}

#[test]
fn strings() {
    check(&[
        (r#""""#, r#""""#),
        (r#""short""#, r#""short""#),
        (r#""longer than a value holds""#, r#""longer than a value holds""#),
        (r#""\"\\\/\b\f\n\r\t""#, r#""\"\\\/\b\f\n\r\t""#),
        (r#""plain, then \u0041\u00e9\u4e2D\ud83d\uDE00 plain""#, "\"plain, then Aé中😀 plain\""),
        (r#""\u0000\u001f\u007f""#, r#""\u0000\u001f\u007f""#),
        ("\"\u{7f}/é😀\"", "\"\\u007f\\/é😀\""),
    ]);
    let value = parse(b"\"\xff\x80 is not UTF-8\"").unwrap();
    assert_eq!(write(&value, 0).unwrap(), b"\"\xff\x80 is not UTF-8\"");
}

#[test]
fn errors_say_what_and_where() {
    let at = |problem: &str, line, column, offset| {
        format!("ValueError: {problem}: line {line} column {column} (char {offset})")
    };
    let (value, name) = ("Expecting value", "Expecting property name enclosed in double quotes");
    let (comma, colon) = ("Expecting ',' delimiter", "Expecting ':' delimiter");
    for (text, expected) in [
        ("", at(value, 1, 1, 0)),
        ("  \n ", at(value, 2, 2, 4)),
        ("nul", at(value, 1, 1, 0)),
        (" trve", at(value, 1, 2, 1)),
        ("-Inf", at(value, 1, 1, 0)),
        ("[1,\n-x]", at(value, 2, 1, 4)),
        ("[", at(value, 1, 2, 1)),
        ("[1,]", at(value, 1, 4, 3)),
        ("[1,", at("Syntax error near", 1, 4, 3)),
        ("{\"a\":1,\n", at("Syntax error near", 2, 1, 8)),
        ("[1 2]", at(comma, 1, 4, 3)),
        ("[1", at(comma, 1, 3, 2)),
        ("[1}", at(comma, 1, 3, 2)),
        ("{\"a\":1]", at(comma, 1, 7, 6)),
        ("{", at(name, 1, 2, 1)),
        ("{1:2}", at(name, 1, 2, 1)),
        ("{\"a\":1,}", at(name, 1, 8, 7)),
        ("{\"a\"", at(colon, 1, 5, 4)),
        ("{\"a\" 1}", at(colon, 1, 6, 5)),
        ("{\"a\":}", at(value, 1, 6, 5)),
        ("1 2", at("Extra data", 1, 3, 2)),
        ("truex", at("Extra data", 1, 5, 4)),
        ("1e400", at(value, 1, 1, 0)),
        ("1e-400", at(value, 1, 1, 0)),
        ("\"a", at("Unterminated string starting at", 1, 1, 0)),
        ("[\"a\\n", at("Unterminated string starting at", 1, 2, 1)),
        ("\"a\nb\"", at("Invalid control character at", 1, 3, 2)),
        ("\"a\\x\"", at("Invalid \\escape", 1, 4, 3)),
        ("\"a\\", at("Invalid \\escape", 1, 4, 3)),
        ("\"\\u12g4\"", at("Invalid \\uXXXX escape", 1, 3, 2)),
        ("\"\\u12", at("Invalid \\uXXXX escape", 1, 3, 2)),
        ("\"\\ud83d\\u12\"", at("Invalid \\uXXXX escape", 1, 10, 9)),
        ("\"\\udc00\"", at("Invalid surrogate pair of \\uXXXX escapes", 1, 3, 2)),
        ("\"\\ud83d!\"", at("Invalid surrogate pair of \\uXXXX escapes", 1, 3, 2)),
        ("\"\\ud83d\\u0041\"", at("Invalid surrogate pair of \\uXXXX escapes", 1, 10, 9)),
    ] {
        assert_eq!(round(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn indentation() {
    let value = parse(br#"{"a":[1,2],"b":{},"c":[]}"#).unwrap();
    for (indent, expected) in [
        (0, "{\"a\":[1,2],\"b\":{},\"c\":[]}"),
        (2, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {\n  },\n  \"c\": [\n  ]\n}"),
        (-1, "{\n\"a\": [\n1,\n2\n],\n\"b\": {\n},\n\"c\": [\n]\n}"),
    ] {
        assert_eq!(String::from_utf8(write(&value, indent).unwrap()).unwrap(), expected);
    }
}

#[test]
fn nesting_has_no_bound() {
    let deep = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
    let checked = std::thread::Builder::new().stack_size(128 * 1024).spawn(move || {
        let text = deep(100_000);
        let value = parse(&text).unwrap();
        assert!(write(&value, 0).unwrap() == text);
        assert_eq!(
            parse(&text[..150_000]).unwrap_err().message(),
            "Expecting ',' delimiter: line 1 column 150001 (char 150000)"
        );
    });
    checked.unwrap().join().unwrap();
}

/// If a changed text can be parsed, the result can be written, and is the same when it is parsed
/// again.
#[test]
fn changed_texts() {
    let seeds: [&[u8]; 3] = [
        br#"{"a":[1,2.5,-3e4,true,false,null,"x\n\u00e9\ud83d\ude00 text"],"b":{"c":NaN,"d":-Infinity},"long key name":[[],{},""]}"#,
        b"[1234567890123456789,99999999999999999999,1e308,-0.0,0]",
        b"  { \"k\" :\r\n [ 1 , 2 ,\n\t3 ] , \"\\/\\b\\f\\\\\\\"\" : {} } ",
    ];
    let mut state = 7_u64;
    let mut random = |bound: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % bound
    };
    let (mut parsed, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut text = seeds[random(seeds.len())].to_vec();
        for _ in 0..random(4) {
            let at = random(text.len());
            match random(3) {
                0 => text[at] = b"[]{},:\"\\ \n01.eE+-n\x00\xff"[random(20)],
                1 => drop(text.drain(at..(at + random(4)).min(text.len()))),
                _ => text.insert(at, random(256) as u8),
            }
        }
        match parse(&text) {
            Err(error) => {
                assert_eq!(error.kind(), "ValueError");
                refused += 1;
            }
            Ok(value) => {
                let written = write(&value, 0).unwrap();
                assert_eq!(write(&parse(&written).unwrap(), 0).unwrap(), written);
                parsed += 1;
            }
        }
    }
    assert!(parsed > 1000 && refused > 1000, "{parsed} {refused}");
}

mod other_values {
    use crate::Function;
    use crate::value::{Any, IntoAny};

    fn stringify(value: &Any) -> String {
        let text: crate::Result<String> = Function::global("ffi.json.Stringify").unwrap().call_as((value, ()));
        text.unwrap_or_else(|error| error.to_string())
    }

    fn make(function: &str, arguments: &[Any]) -> Any {
        let arguments: Vec<_> = arguments.iter().map(|value| *value.as_view()).collect();
        Function::global(function).unwrap().call(&arguments[..]).unwrap()
    }

    #[test]
    fn what_json_does_not_have() {
        let dict = make("ffi.Dict", &[]);
        for (value, expected) in [
            (dict.clone(), "ValueError: Unsupported type: `ffi.Dict`"),
            (make("ffi.Array", &[1.into_any(), dict]), "ValueError: Unsupported type: `ffi.Dict`"),
            (make("ffi.Shape", &[]), "ValueError: Unsupported type: `ffi.Shape`"),
            (make("ffi.Map", &[1.into_any(), 2.into_any()]), "ValueError: Expect key to be string, got `int`"),
            (make("ffi.List", &[make("ffi.List", &[]), true.into_any()]), "[[],true]"),
        ] {
            assert_eq!(stringify(&value), expected);
        }
    }

    #[test]
    fn lists_that_contain_themselves() {
        for depth in [0, 1, 31, 32, 33, 100] {
            let list = make("ffi.List", &[7.into_any()]);
            let mut inner = list.clone();
            for level in 0..depth {
                inner = make(if level % 3 == 0 { "ffi.Array" } else { "ffi.List" }, &[inner]);
            }
            assert!(stringify(&inner).contains("[7]"));
            let append = Function::global("ffi.ListAppend").unwrap();
            append.call((&list, &inner)).unwrap();
            assert_eq!(stringify(&inner), "ValueError: Cycle detected: List contains itself", "{depth}");
            Function::global("ffi.ListClear").unwrap().call((&list,)).unwrap();
        }
        let twice = make("ffi.List", &[]);
        assert_eq!(stringify(&make("ffi.Array", &[twice.clone(), twice])), "[[],[]]");
    }
}
