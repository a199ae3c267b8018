use super::*;
use std::fs;
use std::path::PathBuf;

/// A workspace in a folder of its own, with one crate `a` that has the given files. `new` gets the
/// rows of ARCHITECTURE.md's table.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str, floors: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("kernpack-floors-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let fake = Self(root);
        fake.write(
            "ARCHITECTURE.md",
            &format!("# House\n\n## Floors\n\n| of | floors |\n|---|---|\n{floors}\n\n## More\n\n| x | y |\n"),
        );
        fake.write("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n");
        fake.write("a/Cargo.toml", "[package]\nname = \"a\"\n");
        for (path, text) in files {
            fake.write(&format!("a/src/{path}"), text);
        }
        fake
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn problems(&self) -> Vec<String> {
        check(&self.0).unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_of_path_attributes_are_read() {
    let fake = Fake::new(
        "path",
        "| `a` | low < high |",
        &[
            ("lib.rs", "#[path = \"down/mod.rs\"] mod low; mod high;\n"),
            ("down/mod.rs", "mod inner;\n"),
            ("down/inner.rs", "use crate::high::X;\n"),
            ("high.rs", "pub struct X;\n"),
        ],
    );
    assert_eq!(fake.problems(), ["a/src/down/inner.rs:1: low (floor 1) reaches up to high (floor 2): crate::high::X"]);
}

#[test]
fn use_lines_code_and_macros_are_seen() {
    let low = "//! crate::high::X in a comment is none.\n\
        use crate::{high::X, low};\n\
        pub(in crate::low) fn f() -> super::high::X {\n\
            let text = \"crate::high\";\n\
            println!(\"{}\", crate::high::Y);\n\
            { use crate::high::{Z, inner::W}; }\n\
            crate::failed!()\n\
        }\n\
        macro_rules! m { () => { $crate::high::m() } }\n\
        #[macro_export]\nmacro_rules! exported { () => { $crate::high::m() } }\n\
        #[cfg(test)]\nmod tests { use crate::high::X; }\n\
        mod child { fn g() { super::super::high::h(); self::i(); super::f(); } fn i() {} }\n";
    let high = "use crate::low::f;\npub struct X; pub struct Y; pub struct Z;\npub mod inner { pub struct W; }\n\
        #[macro_export]\nmacro_rules! failed { () => {} }\n";
    let fake = Fake::new(
        "seen",
        "| `a` | low < high |",
        &[("lib.rs", "mod low;\nmod high;\n"), ("low.rs", low), ("high/mod.rs", high)],
    );
    let up =
        |line: usize, path: &str| format!("a/src/low.rs:{line}: low (floor 1) reaches up to high (floor 2): {path}");
    assert_eq!(
        fake.problems(),
        [
            up(2, "crate::high::X"),
            up(3, "super::high::X"),
            up(5, "crate::high::Y"),
            up(6, "crate::high::Z"),
            up(6, "crate::high::inner::W"),
            up(7, "crate::failed"),
            up(9, "crate::high::m"),
            up(14, "super::super::high::h"),
        ]
    );
}

#[test]
fn names_lead_to_where_they_are_defined() {
    let files = [
        (
            "lib.rs",
            "mod low;\nmod middle;\nmod high;\npub use high::*;\npub use middle::Low as Renamed;\npub use other_crate::{self, Thing};\n",
        ),
        ("low.rs", "use crate::{Deep, Renamed, Thing, other_crate::x};\npub struct Low;\n"),
        ("middle.rs", "pub use crate::low::Low;\n"),
        ("high.rs", "mod deep;\npub use deep::Deep;\n"),
        ("high/deep.rs", "pub struct Deep;\n"),
    ];
    let fake = Fake::new("names", "| `a` | low < middle < high |", &files);
    assert_eq!(fake.problems(), ["a/src/low.rs:1: low (floor 1) reaches up to high (floor 3): crate::Deep"]);
}

#[test]
fn rooms_of_one_floor_and_exceptions() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
        ("a.rs", "use crate::b::X;\nuse crate::d::X as Y;\n"),
        ("b.rs", "use crate::a;\npub struct X;\n"),
        ("c.rs", "use crate::b::X;\n"),
        ("d.rs", "pub struct X;\n"),
    ];
    let reason = "| exception | `a::a` -> `a::d` | a type that both know |";
    let fake = Fake::new("floor", &format!("| `a` | a + b, c < d |\n{reason}"), &files);
    assert_eq!(fake.problems(), ["a/src/c.rs:1: c (floor 1) reaches up to b (floor 1): crate::b::X"]);
    let fake = Fake::new("unused", &format!("| `a` | d < a + b < c |\n{reason}"), &files);
    assert_eq!(fake.problems(), ["ARCHITECTURE.md: nothing needs the exception a::a -> a::d"]);
}

#[test]
fn rooms_of_a_module_and_rooms_that_are_missing() {
    let files = [
        ("lib.rs", "mod m;\nmod n;\n"),
        ("m/mod.rs", "mod low;\nmod high;\nuse self::high::X;\n"),
        ("m/low.rs", "use super::high::X;\nuse crate::n::Y;\n"),
        ("m/high.rs", "pub struct X;\n"),
        ("n.rs", "pub struct Y;\n"),
    ];
    let fake = Fake::new("module", "| `a` | n < m < o |\n| `a::m` | low |", &files);
    assert_eq!(
        fake.problems(),
        [
            "ARCHITECTURE.md: the row of a has a room o, which is not in the sources",
            "ARCHITECTURE.md: the row of a::m lacks the room high",
        ]
    );
    let fake = Fake::new("module", "| `a` | n < m |\n| `a::m` | low < high |", &files);
    assert_eq!(fake.problems(), ["a/src/m/low.rs:1: low (floor 1) reaches up to high (floor 2): super::high::X"]);
}

#[test]
fn crates_depend_on_crates_below() {
    let fake = Fake::new("crates", "| crates | b < a |\n| `a` | m |", &[("lib.rs", "mod m;\n"), ("m.rs", "")]);
    fake.write("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\n");
    fake.write("a/Cargo.toml", "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\nserde = \"1\"\n");
    fake.write("b/Cargo.toml", "[package]\nname = \"b\"\n[dev-dependencies]\na = \"1\"\n");
    assert_eq!(fake.problems(), [] as [&str; 0]);
    fake.write("b/Cargo.toml", "[package]\nname = \"b\"\n[build-dependencies]\na = \"1\"\n");
    assert_eq!(fake.problems(), ["b/Cargo.toml:4: b depends on a, which is not below it"]);
    let exception =
        "| of | floors |\n|---|---|\n| crates | b < a |\n| exception | `b` -> `a` | for a feature |\n| `a` | m |";
    fake.write("ARCHITECTURE.md", &format!("## Floors\n\n{exception}\n").replace("## Floors", "\n## Floors"));
    assert_eq!(fake.problems(), [] as [&str; 0]);
}

#[test]
fn the_tables_are_checked() {
    for (floors, problem) in [
        ("| `a` | x < y < x |", "the row of a has 'x' twice, or a floor without a name"),
        ("| `a` | x < < y |", "'' twice, or a floor without a name"),
        ("| `a` | x |\n| exception | `a::x` -> `a::y` | |", "has no reason"),
        ("| `nothing` | x |", "no crate nothing in the workspace"),
        ("", "no row with the rooms of a crate"),
    ] {
        let fake = Fake::new("tables", floors, &[("lib.rs", "mod x;\n"), ("x.rs", "")]);
        let error = check(&fake.0).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
