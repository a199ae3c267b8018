//! Formats token streams for people.
#![allow(dead_code, reason = "each test file uses some of it")]

use kernpack_macros_backend::Environment;
use proc_macro2::{TokenStream, TokenTree};

/// A crate like the one in the issue.
pub(crate) fn environment() -> Environment {
    Environment {
        crate_name: Some("imagekit".to_owned()),
        crate_version: Some("0.1.0".to_owned()),
        ..Environment::default()
    }
}

#[track_caller]
pub(crate) fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap()
}

/// Formats the code like rustfmt.
#[track_caller]
pub(crate) fn pretty(code: TokenStream) -> String {
    let text = code.to_string();
    match syn::parse2(code) {
        Ok(file) => prettyplease::unparse(&file),
        Err(error) => panic!("generated code does not parse: {error}\n{text}"),
    }
}

/// Returns the messages of the `compile_error!`s in the code.
pub(crate) fn mistakes(code: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_error = false;
    for token in code {
        match token {
            TokenTree::Ident(ident) => in_error = ident == "compile_error",
            TokenTree::Group(group) if in_error => {
                in_error = false;
                found.extend(syn::parse2::<syn::LitStr>(group.stream()).map(|message| message.value()));
            }
            _ => {}
        }
    }
    found
}
