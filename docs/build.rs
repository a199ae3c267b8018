//! Makes one module of the Rust code of a chapter: what stands between "```rust" and "```". Blocks of "```rust,test" become tests.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

const CHAPTER: &str = "your-own-types.md";

fn main() {
    println!("cargo::rerun-if-changed={CHAPTER}");
    let chapter = fs::read_to_string(CHAPTER).expect("the chapter is beside build.rs");
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
    assert!(!items.is_empty() && !tests.is_empty(), "{CHAPTER} has no code");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("items.rs"), items).expect("OUT_DIR can be written to");
    fs::write(Path::new(&out).join("tests.rs"), tests).expect("OUT_DIR can be written to");
}
