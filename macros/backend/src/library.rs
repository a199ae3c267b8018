use std::path::{Path as FilePath, PathBuf};

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Path};

use crate::dependencies::{Dependency, MARKER};
use crate::environment::Environment;
use crate::mistakes::Mistakes;
use crate::options::{CratePath, Entry, entries};

const KNOWN: &str = "`with = [...]`, `without = [...]` and `crate = path`";

/// The arguments of `library!()`.
#[derive(Default)]
struct Options {
    /// Crates whose functions and types belong to this library, whether or not its code refers to
    /// them.
    with: Vec<Path>,
    /// Dependencies that are separate libraries and not part of this one.
    without: Vec<Path>,
    krate: Option<Path>,
}

impl Options {
    fn parse(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut options = Self::default();
        for entry in entries(tokens, KNOWN, mistakes) {
            match entry.key.to_string().as_str() {
                "with" => options.with = crates(entry, mistakes),
                "without" => options.without = crates(entry, mistakes),
                "crate" => options.krate = entry.path(mistakes),
                _ => entry.unknown(KNOWN, mistakes),
            }
        }
        let has = |paths: &[Path], path: &Path| paths.iter().any(|other| text(other) == text(path));
        for (at, path) in options.with.iter().enumerate() {
            if has(&options.with[..at], path) {
                mistakes.at(path, format_args!("`{}` is named twice; keep one", text(path)));
            }
            if has(&options.without, path) {
                mistakes.at(path, format_args!("`{}` is in `with` and in `without`; keep one", text(path)));
            }
        }
        options
    }
}

/// Parses the crates of `key = [dep_a, dep_b]`.
fn crates(entry: Entry, mistakes: &mut Mistakes) -> Vec<Path> {
    let key = entry.key.clone();
    let example = format!("`{key} = [dep_a, dep_b]`");
    let Some(list) = entry.expression("[dep_a, dep_b]", mistakes) else { return Vec::new() };
    let Expr::Array(list) = list else {
        mistakes.at(list, format_args!("`{key}` takes a list of crates, as in {example}"));
        return Vec::new();
    };
    let mut found = Vec::new();
    for element in list.elems {
        match element {
            Expr::Path(path)
                if path.qself.is_none() && path.path.segments.iter().all(|segment| segment.arguments.is_none()) =>
            {
                found.push(path.path);
            }
            other => {
                mistakes.at(other, format_args!("expected the name of a crate as code spells it, as in {example}"))
            }
        }
    }
    found
}

/// Formats a path as the user wrote it.
fn text(path: &Path) -> String {
    let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    format!("{}{}", if path.leading_colon.is_some() { "::" } else { "" }, segments.join("::"))
}

/// Returns the dependency that a path with one segment names.
fn dependency<'a>(path: &Path, environment: &'a Environment) -> Option<&'a Dependency> {
    let name = (path.segments.len() == 1).then(|| path.segments[0].ident.to_string())?;
    environment.dependencies.iter().find(|dependency| dependency.name == name)
}

/// Expands `kernpack::library!()`.
pub fn expand(input: TokenStream, environment: &Environment) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let options = Options::parse(input, &mut mistakes);
    for path in &options.with {
        if let Some(Dependency { name, is_library: false, .. }) = dependency(path, environment) {
            mistakes.at(
                path,
                format_args!(
                    "the crate `{name}` does not call `kernpack::library!()`, so it registers nothing; call it in the root of \
                     `{name}`, or take `{name}` out of `with`"
                ),
            );
        }
    }
    check_build_script(environment, &mut mistakes);
    let kernpack = CratePath(options.krate.clone());
    let included = included_file(environment, &kernpack, &mut mistakes);
    let Some(crate_name) = environment.required_crate_name(&mut mistakes) else {
        return mistakes.into_compile_errors().unwrap_or_default();
    };
    if let Some(errors) = mistakes.into_compile_errors() {
        return errors;
    }
    let no_shared_library = no_shared_library(environment);
    let init_symbol = format!("PyInit_{crate_name}");
    let version = environment.crate_version.as_deref().unwrap_or("");
    let variable = Environment::LIBRARY_FILE;
    let item = format_ident!("{MARKER}");
    let with = options.with.iter().map(|path| {
        let item = format_ident!("{MARKER}", span = path.span());
        // Reported at the user's own token if there is no such item.
        quote_spanned!(path.span()=> &#path::#item)
    });
    let is_listed = |dependency: &Dependency, list: &[Path]| {
        list.iter().any(|path| path.segments.len() == 1 && path.segments[0].ident == dependency.name)
    };
    let others = environment.dependencies.iter().filter(|dependency| {
        dependency.is_library && !is_listed(dependency, &options.with) && !is_listed(dependency, &options.without)
    });
    let dependencies = others.map(
        |Dependency { name, crate_name, .. }| quote!(__k::DependencyInfo { name: #name, crate_name: #crate_name }),
    );
    quote! {
        /// Describes this crate to the runtime; `library!(with = [..])` of other crates names it.
        #[doc(hidden)]
        #[allow(unreachable_pub)]
        #[#kernpack::__private_v0_1::linkme::distributed_slice(#kernpack::__private_v0_1::KERNPACK_LIBRARIES_V1)]
        #[linkme(crate = #kernpack::__private_v0_1::linkme)]
        pub static #item: #kernpack::__private_v0_1::LibraryInfo = {
            use #kernpack::__private_v0_1 as __k;
            // Makes the compiler run again when the variable changes.
            const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(#variable);
            __k::LibraryInfo {
                crate_name: #crate_name,
                version: #version,
                file: ::core::file!(),
                line: ::core::line!(),
                with: &[#(#with),*],
                dependencies: &[#(#dependencies),*],
            }
        };
        // With the feature `python` of the crate, the function that CPython looks for in a file
        // that it imports.
        const _: () = {
            #kernpack::__private_v0_1::python_module!(#init_symbol, #crate_name, ::core::env!("CARGO_PKG_DESCRIPTION"));
        };
        #included
        #no_shared_library
    }
}

/// Returns a warning for a package that builds no shared library without declaring it.
fn no_shared_library(environment: &Environment) -> Option<TokenStream> {
    const NOTE: &str = "Cargo.toml says no `crate-type`, so no shared library is made: write `crate-type = [\"cdylib\", \"rlib\"]` under [lib], or \
                        `crate-type = [\"rlib\"]` for a crate that only other crates take in";
    environment.no_crate_type.then(|| {
        quote! {
            const _: () = {
                #[deprecated(note = #NOTE)]
                const NO_SHARED_LIBRARY: () = ();
                NO_SHARED_LIBRARY
            };
        }
    })
}

/// Reports a build script that builds no kernels although the manifest suggests it. Without this
/// check, the kernels would be silently missing.
fn check_build_script(environment: &Environment, mistakes: &mut Mistakes) {
    let (None, Some(folder)) = (&environment.library_file, &environment.package_dir) else { return };
    let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else { return };
    let mut section = "";
    let mut is_wanted = false;
    for line in manifest.lines().map(str::trim) {
        section = if line.starts_with('[') { line } else { section };
        let key = line.split(['=', '.']).next().map(str::trim);
        if section == "[package]" && key == Some("build") {
            return;
        }
        is_wanted |= line == "[build-dependencies.kernpack-build]"
            || (section == "[build-dependencies]" && key == Some("kernpack-build"));
    }
    if !is_wanted {
        return;
    }
    let here = proc_macro2::Span::call_site();
    match std::fs::read_to_string(folder.join("build.rs")) {
        Err(_) => mistakes.at_span(
            here,
            "Cargo.toml has the build dependency `kernpack-build`, but beside it is no build.rs; write one: \
             `fn main() -> kernpack_build::Result<()> { kernpack_build::Library::new().c([\"kernels/scale.c\"]).build() }`",
        ),
        Ok(script) if script.contains("Library::new()") && !script.contains(".build()") => mistakes.at_span(
            here,
            "build.rs makes a `kernpack_build::Library` and never calls `.build()`, so nothing was compiled; call it, and return its result from `main`",
        ),
        Ok(_) => {}
    }
}

/// Generates an `include!` of the file from `build.rs`, if there is one.
fn included_file(environment: &Environment, kernpack: &CratePath, mistakes: &mut Mistakes) -> TokenStream {
    let Some(path) = &environment.library_file else { return TokenStream::new() };
    let variable = Environment::LIBRARY_FILE;
    let here = proc_macro2::Span::call_site();
    let Some(whole) = path.to_str() else {
        mistakes.at_span(here, format_args!("{variable} is not UTF-8: {}; build in another folder", path.display()));
        return TokenStream::new();
    };
    if !path.is_absolute() {
        mistakes.at_span(here, format_args!("{variable} names {whole}, which is not an absolute path; use OUT_DIR"));
        return TokenStream::new();
    }
    if !path.is_file() {
        mistakes.at_span(
            here,
            format_args!(
                "{variable} names {whole}, which is not a file; call `kernpack_build::Library::build()` in build.rs"
            ),
        );
        return TokenStream::new();
    }
    let text =
        environment.source_file.as_deref().and_then(|source| relative(path, source, &std::env::current_dir().ok()?));
    let text = text.as_deref().unwrap_or(whole);
    quote! {
        // The path of the crate in the file, whatever its name is here.
        #[allow(unused_imports)]
        use #kernpack as __kernpack;
        ::core::include!(#text);
    }
}

/// Returns the path from a source file to a file of the build folder, if the compiler, which runs
/// in `root`, was given the source's path relative to it.
///
/// Panic messages of the included file then contain this relative path, and the library has the
/// same bytes whatever the folder of the workspace is. `include!` is resolved relative to the file
/// where a user's macro is called, which may differ from the file where it is written. Only a crate
/// root, which has a usual name, is known to be the same.
fn relative(file: &FilePath, source: &FilePath, root: &FilePath) -> Option<String> {
    let is_root = matches!(source.file_name()?.to_str()?, "lib.rs" | "main.rs");
    let folder = source.parent()?;
    if source.is_absolute() || !is_root {
        return None;
    }
    let mut way: PathBuf = folder.components().map(|_| "..").collect();
    way.push(file.strip_prefix(root).ok()?);
    // A folder that is a link has another parent.
    let reached = root.join(folder).join(&way).canonicalize().ok()?;
    let is_there = file.canonicalize().is_ok_and(|file| file == reached);
    way.to_str().filter(|_| is_there).map(str::to_owned)
}
