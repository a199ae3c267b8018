//! Makes modules of the Rust code of the chapters: what stands between "```rust" and "```". Blocks of "```rust,test" become tests.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// The chapters, and what their code is called.
const CHAPTERS: [(&str, &str); 3] =
    [("your-own-types.md", "own_types"), ("devices.md", "devices"), ("modules.md", "modules")];

fn main() {
    for (chapter, name) in CHAPTERS {
        println!("cargo::rerun-if-changed={chapter}");
        let (items, tests) = code_of(&fs::read_to_string(chapter).expect("the chapter is beside build.rs"));
        assert!(!items.is_empty() && !tests.is_empty(), "{chapter} has no code");
        let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
        let write = |kind: &str, code: String| {
            fs::write(Path::new(&out).join(format!("{name}_{kind}.rs")), code).expect("OUT_DIR can be written to");
        };
        write("items", items);
        write("tests", tests);
    }
}

/// The items and the tests of a chapter.
fn code_of(chapter: &str) -> (String, String) {
    let (mut items, mut tests) = (String::new(), String::new());
    let mut lines = chapter.lines();
    while let Some(line) = lines.next() {
        let into = match line {
            "```rust" => &mut items,
            "```rust,test" => &mut tests,
            _ => continue,
        };
        let is_test = line.ends_with("test");
        if is_test {
            let number = into.matches("#[test]").count() + 1;
            writeln!(into, "#[test]\nfn example_{number}() -> kernpack::Result<()> {{")
                .expect("a string takes everything");
        }
        for line in lines.by_ref().take_while(|line| *line != "```") {
            writeln!(into, "{line}").expect("a string takes everything");
        }
        if is_test {
            into.push_str("Ok(())\n}\n");
        }
    }
    (items, tests)
}
