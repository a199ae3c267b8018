//! What `library!()` generates and which mistakes it reports.

mod show;

use std::path::PathBuf;

use expect_test::expect;
use kernpack_macros_backend::{Environment, expand_library};
use show::{environment, mistakes, pretty, tokens};

fn with_file(path: impl Into<PathBuf>) -> Environment {
    Environment { library_file: Some(path.into()), ..environment() }
}

#[test]
fn whole_expansion() {
    expect![[r#"
        /// What this crate says about itself when it is loaded as a library.
        #[doc(hidden)]
        #[allow(dead_code, unsafe_code)]
        const KERNPACK_LIBRARY: () = {
            use ::kernpack::impl_ as __k;
            const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
                "KERNPACK_LIBRARY_RS"
            );
            #[__k::linkme::distributed_slice(__k::KERNPACK_LIBRARIES_V1)]
            #[linkme(crate = __k::linkme)]
            static LIBRARY: __k::LibraryInfo = __k::LibraryInfo {
                crate_name: "imagekit",
                version: "0.1.0",
                file: ::core::file!(),
                line: ::core::line!(),
            };
        };
    "#]]
    .assert_eq(&pretty(expand_library(tokens(""), &environment())));
}

#[test]
fn includes_what_the_build_script_wrote() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let code = expand_library(tokens(""), &with_file(&file)).to_string();
    assert!(code.ends_with(&format!(":: core :: include ! ({:?}) ;", file.to_str().unwrap())), "{code}");
}

#[test]
fn all_mistakes_at_once() {
    for (input, environment, says) in [
        ("name = \"x\"", environment(), &["takes no arguments"][..]),
        ("", with_file("/nowhere/kernpack_library.rs"), &["names /nowhere/kernpack_library.rs, which is not a file"]),
        ("", with_file(env!("CARGO_MANIFEST_DIR")), &["which is not a file"]),
        ("", with_file("kernpack_library.rs"), &["not an absolute path"]),
        ("", Environment::default(), &["CARGO_CRATE_NAME"]),
        (
            "x",
            Environment { crate_name: None, ..with_file("/nowhere") },
            &["takes no arguments", "which is not a file", "CARGO_CRATE_NAME"],
        ),
    ] {
        let found = mistakes(expand_library(tokens(input), &environment));
        assert_eq!(found.len(), says.len(), "{found:#?}");
        for (found, says) in found.iter().zip(says) {
            assert!(found.contains(says), "expected {says:?}, got {found:?}");
        }
    }
}
