use proc_macro2::TokenStream;
use quote::quote;

use crate::environment::Environment;
use crate::mistakes::Mistakes;

/// Expands `kernpack::library!()`.
pub fn expand(input: TokenStream, environment: &Environment) -> TokenStream {
    let mut mistakes = Mistakes::default();
    if !input.is_empty() {
        mistakes.at(input, "`library!` takes no arguments; write `kernpack::library!();`");
    }
    let included = included_file(environment, &mut mistakes);
    let Some(crate_name) = environment.required_crate_name(&mut mistakes) else {
        return mistakes.into_compile_errors().unwrap_or_default();
    };
    if let Some(errors) = mistakes.into_compile_errors() {
        return errors;
    }
    let version = environment.crate_version.as_deref().unwrap_or("");
    let variable = Environment::LIBRARY_FILE;
    quote! {
        /// What this crate says about itself when it is loaded as a library.
        #[doc(hidden)]
        #[allow(dead_code, unsafe_code)]
        const KERNPACK_LIBRARY: () = {
            use ::kernpack::impl_ as __k;
            // Makes the compiler run again when the variable changes.
            const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(#variable);
            #[__k::linkme::distributed_slice(__k::KERNPACK_LIBRARIES_V1)]
            #[linkme(crate = __k::linkme)]
            static LIBRARY: __k::LibraryInfo = __k::LibraryInfo {
                crate_name: #crate_name,
                version: #version,
                file: ::core::file!(),
                line: ::core::line!(),
            };
        };
        #included
    }
}

/// `include!` of what `build.rs` wrote, if it wrote something.
fn included_file(environment: &Environment, mistakes: &mut Mistakes) -> TokenStream {
    let Some(path) = &environment.library_file else { return TokenStream::new() };
    let variable = Environment::LIBRARY_FILE;
    let here = proc_macro2::Span::call_site();
    let Some(text) = path.to_str() else {
        mistakes.at_span(here, format_args!("{variable} is not UTF-8: {}; build in another folder", path.display()));
        return TokenStream::new();
    };
    if !path.is_absolute() {
        mistakes.at_span(here, format_args!("{variable} names {text}, which is not an absolute path; use OUT_DIR"));
        return TokenStream::new();
    }
    if !path.is_file() {
        mistakes.at_span(
            here,
            format_args!(
                "{variable} names {text}, which is not a file; call `kernpack_build::Library::build()` in build.rs"
            ),
        );
        return TokenStream::new();
    }
    quote!(::core::include!(#text);)
}
