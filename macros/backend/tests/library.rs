//! Tests the code that `library!()` generates and the errors that it reports.

mod show;

use std::path::PathBuf;

use expect_test::expect;
use kernpack_macros_backend::{Dependency, Environment, expand_library};
use show::{environment, mistakes, pretty, tokens};

fn with_file(path: impl Into<PathBuf>) -> Environment {
    Environment { library_file: Some(path.into()), ..environment() }
}

/// A crate with three dependencies, one of them renamed.
fn with_dependencies() -> Environment {
    let dependencies = [("colors", "colors", true), ("forms", "shapes", true), ("serde_json", "serde_json", false)];
    let dependency = |(name, crate_name, is_library): (&str, &str, bool)| Dependency {
        name: name.to_owned(),
        crate_name: crate_name.to_owned(),
        is_library,
    };
    Environment { dependencies: dependencies.map(dependency).to_vec(), ..environment() }
}

#[test]
fn whole_expansion() {
    expect![[r#"
        /// Describes this crate to the runtime; `library!(with = [..])` of other crates names it.
        #[doc(hidden)]
        #[allow(unreachable_pub)]
        #[::kernpack::__private_v0_1::linkme::distributed_slice(
            ::kernpack::__private_v0_1::KERNPACK_LIBRARIES_V1
        )]
        #[linkme(crate = ::kernpack::__private_v0_1::linkme)]
        pub static KERNPACK_LIBRARY_V1: ::kernpack::__private_v0_1::LibraryInfo = {
            use ::kernpack::__private_v0_1 as __k;
            const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
                "KERNPACK_LIBRARY_RS"
            );
            __k::LibraryInfo {
                crate_name: "imagekit",
                version: "0.1.0",
                file: ::core::file!(),
                line: ::core::line!(),
                with: &[],
                dependencies: &[],
            }
        };
        const _: () = {
            ::kernpack::__private_v0_1::python_module!(
                "PyInit_imagekit", "imagekit", ::core::env!("CARGO_PKG_DESCRIPTION")
            );
        };
    "#]]
    .assert_eq(&pretty(expand_library(tokens(""), &environment())));
}

#[test]
fn crates_that_belong_to_the_library() {
    let input = "with = [colors, facade::prelude::curves], crate = ::ffi::kernpack";
    expect![[r#"
        /// Describes this crate to the runtime; `library!(with = [..])` of other crates names it.
        #[doc(hidden)]
        #[allow(unreachable_pub)]
        #[::ffi::kernpack::__private_v0_1::linkme::distributed_slice(
            ::ffi::kernpack::__private_v0_1::KERNPACK_LIBRARIES_V1
        )]
        #[linkme(crate = ::ffi::kernpack::__private_v0_1::linkme)]
        pub static KERNPACK_LIBRARY_V1: ::ffi::kernpack::__private_v0_1::LibraryInfo = {
            use ::ffi::kernpack::__private_v0_1 as __k;
            const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
                "KERNPACK_LIBRARY_RS"
            );
            __k::LibraryInfo {
                crate_name: "imagekit",
                version: "0.1.0",
                file: ::core::file!(),
                line: ::core::line!(),
                with: &[
                    &colors::KERNPACK_LIBRARY_V1,
                    &facade::prelude::curves::KERNPACK_LIBRARY_V1,
                ],
                dependencies: &[
                    __k::DependencyInfo {
                        name: "forms",
                        crate_name: "shapes",
                    },
                ],
            }
        };
        const _: () = {
            ::ffi::kernpack::__private_v0_1::python_module!(
                "PyInit_imagekit", "imagekit", ::core::env!("CARGO_PKG_DESCRIPTION")
            );
        };
    "#]]
    .assert_eq(&pretty(expand_library(tokens(input), &with_dependencies())));
    // The other dependencies are known.
    for (input, says) in [
        ("", &["colors", "forms"][..]),
        ("with = []", &["colors", "forms"]),
        ("with = [colors]", &["forms"]),
        ("with = [::colors, forms,]", &[]),
        ("without = [forms]", &["colors"]),
        ("with = [colors], without = [forms]", &[]),
    ] {
        let code = expand_library(tokens(input), &with_dependencies()).to_string();
        for name in ["colors", "forms", "serde_json"] {
            let is_there = code.contains(&format!("DependencyInfo {{ name : {name:?}"));
            assert_eq!(is_there, says.contains(&name), "{input}: {name}");
        }
    }
}

#[test]
fn includes_what_the_build_script_wrote() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let code = expand_library(tokens(""), &with_file(&file)).to_string();
    assert!(code.ends_with(&format!(":: core :: include ! ({:?}) ;", file.to_str().unwrap())), "{code}");
    assert!(code.contains("use :: kernpack as __kernpack ;"), "{code}");
    let code = expand_library(tokens("crate = ffi"), &with_file(&file)).to_string();
    assert!(code.contains("use ffi as __kernpack ;"), "{code}");
}

#[test]
fn a_library_does_not_name_its_folder() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let file = folder.join("Cargo.toml");
    let whole = file.to_str().unwrap();
    // The compiler runs in the folder of the workspace, and this test in that of the package.
    for (source, included) in [
        (Some("src/lib.rs"), "../Cargo.toml"),
        (Some("src/doc/../lib.rs"), whole),
        (Some("lib.rs"), "Cargo.toml"),
        // A file that may contain a macro that another file calls.
        (Some("src/library.rs"), whole),
        (Some("nowhere/lib.rs"), whole),
        (folder.join("src/lib.rs").to_str(), whole),
        (None, whole),
    ] {
        let environment = Environment { source_file: source.map(PathBuf::from), ..with_file(&file) };
        let code = expand_library(tokens(""), &environment).to_string();
        assert!(code.ends_with(&format!(":: core :: include ! ({included:?}) ;")), "{source:?}: {code}");
    }
    // A target folder elsewhere.
    let elsewhere = std::env::current_exe().unwrap();
    let environment = Environment { source_file: Some("src/lib.rs".into()), ..with_file(&elsewhere) };
    let code = expand_library(tokens(""), &environment).to_string();
    assert!(code.ends_with(&format!(":: core :: include ! ({:?}) ;", elsewhere.to_str().unwrap())), "{code}");
}

#[test]
fn all_mistakes_at_once() {
    for (input, environment, says) in [
        ("name = \"x\"", environment(), &["unknown option `name`; the options are `with = [...]`"][..]),
        ("colors", environment(), &["unknown option `colors`"]),
        ("with = colors", environment(), &["`with` takes a list of crates, as in `with = [dep_a, dep_b]`"]),
        ("with = [\"colors\", 3]", environment(), &["expected the name of a crate", "expected the name of a crate"]),
        ("with = [colors::<u8>]", environment(), &["expected the name of a crate"]),
        ("with = [colors, forms, colors]", environment(), &["`colors` is named twice"]),
        ("with = [colors], without = [colors]", environment(), &["`colors` is in `with` and in `without`"]),
        ("with = [serde_json]", with_dependencies(), &["the crate `serde_json` does not call `kernpack::library!()`"]),
        ("with = [unknown]", with_dependencies(), &[]),
        ("", with_file("/nowhere/kernpack_library.rs"), &["names /nowhere/kernpack_library.rs, which is not a file"]),
        ("", with_file(env!("CARGO_MANIFEST_DIR")), &["which is not a file"]),
        ("", with_file("kernpack_library.rs"), &["not an absolute path"]),
        ("", Environment::default(), &["CARGO_CRATE_NAME"]),
        (
            "x",
            Environment { crate_name: None, ..with_file("/nowhere") },
            &["unknown option `x`", "which is not a file", "CARGO_CRATE_NAME"],
        ),
    ] {
        let found = mistakes(expand_library(tokens(input), &environment));
        assert_eq!(found.len(), says.len(), "{found:#?}");
        for (found, says) in found.iter().zip(says) {
            assert!(found.contains(says), "expected {says:?}, got {found:?}");
        }
    }
}

#[test]
fn packages_without_a_shared_library() {
    let warned = Environment { no_crate_type: true, ..environment() };
    let note = "crate-type = [\\\"cdylib\\\", \\\"rlib\\\"]";
    assert!(expand_library(tokens(""), &warned).to_string().contains(note));
    assert!(!expand_library(tokens(""), &environment()).to_string().contains(note));
}

#[test]
fn build_scripts_that_make_nothing() {
    let dir = std::env::temp_dir().join(format!("kernpack-build-script-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let plain = "[package]\nname = \"a\"\n\n[dependencies]\nkernpack-build = \"0.1\"\n";
    let wanted = "[package]\nname = \"a\"\n\n[build-dependencies]\nkernpack-build = { path = \"b\" }\n";
    let table = "[package]\nname = \"a\"\n\n[build-dependencies.kernpack-build]\npath = \"b\"\n";
    let elsewhere = "[package]\nbuild = \"b/build.rs\"\n\n[build-dependencies]\nkernpack-build.workspace = true\n";
    let forgotten = "fn main() { let _ = kernpack_build::Library::new().c([\"k.c\"]); }";
    let built = "fn main() -> kernpack_build::Result<()> { kernpack_build::Library::new().build() }";
    for (manifest, script, says) in [
        (plain, None, None),
        (elsewhere, None, None),
        (wanted, None, Some("beside it is no build.rs")),
        (table, None, Some("beside it is no build.rs")),
        (wanted, Some(forgotten), Some("never calls `.build()`")),
        (wanted, Some(built), None),
        (wanted, Some("fn main() { kernpack_build::export_abi() }"), None),
    ] {
        std::fs::write(dir.join("Cargo.toml"), manifest).unwrap();
        let _ = std::fs::remove_file(dir.join("build.rs"));
        if let Some(script) = script {
            std::fs::write(dir.join("build.rs"), script).unwrap();
        }
        let found =
            mistakes(expand_library(tokens(""), &Environment { package_dir: Some(dir.clone()), ..environment() }));
        assert_eq!(found.len(), usize::from(says.is_some()), "{manifest}{script:?}: {found:?}");
        assert!(found.iter().zip(says).all(|(found, says)| found.contains(says)), "{found:?}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}
