//! The modules of a crate, and their imports.

use crate::Result;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::{Attribute, Item, UseTree};

/// A module's place: the names from the root of the crate; empty for the root itself.
type Place = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
pub(super) struct Modules {
    modules: BTreeMap<Place, Module>,
    /// Macros that are exported at the root, and the modules that define them.
    macros: BTreeMap<String, Place>,
    references: Vec<Reference>,
}

#[derive(Default)]
struct Module {
    /// Names of child modules; each has an entry of its own.
    children: BTreeSet<String>,
    /// Names that `use` lines introduce, and the paths that they stand for.
    aliases: BTreeMap<String, Vec<String>>,
    /// The paths of `use path::*`.
    globs: Vec<Vec<String>>,
    /// Names of the items defined here.
    items: BTreeSet<String>,
}

/// A path in the source that begins with `crate`, `super` or `self`.
struct Reference {
    from: Place,
    path: Vec<String>,
    is_macro: bool,
    file: PathBuf,
    line: usize,
}

/// An import, resolved.
pub(super) struct Import<'a> {
    /// The module that imports.
    pub(super) from: &'a [String],
    /// The module where the imported item is defined.
    pub(super) to: Place,
    pub(super) file: &'a Path,
    pub(super) line: usize,
    /// The path as written in the source.
    pub(super) path: String,
}

impl Modules {
    /// Reads a crate from the file of its root; paths in messages are relative to `base`.
    pub(super) fn read(base: &Path, root: &Path) -> Result<Self> {
        let mut modules = Self::default();
        let folder = root.parent().unwrap_or(root);
        modules.read_file(base, root, folder, Vec::new())?;
        Ok(modules)
    }

    /// The modules in a module, without those for tests.
    pub(super) fn children(&self, place: &[String]) -> Option<&BTreeSet<String>> {
        self.modules.get(place).map(|module| &module.children)
    }

    /// All imports within the crate.
    pub(super) fn imports(&self) -> impl Iterator<Item = Import<'_>> {
        self.references.iter().filter_map(|reference| {
            let Reference { from, path, is_macro, file, line } = reference;
            let exported = || self.macros.get(path.last()?).cloned();
            let to = if *is_macro && path.len() == 2 { exported() } else { None };
            let to = to.or_else(|| self.resolve(from, path, 0))?;
            Some(Import { from, to, file, line: *line, path: path.join("::") })
        })
    }

    fn read_file(&mut self, base: &Path, file: &Path, folder: &Path, place: Place) -> Result {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let shown = file.strip_prefix(base).unwrap_or(file);
        let syntax = syn::parse_file(&text)
            .map_err(|error| format!("{}:{}: {error}", shown.display(), error.span().start().line))?;
        self.read_items(base, shown, folder, place, syntax.items)
    }

    /// Reads the items of a module whose child modules' files are in `folder`.
    fn read_items(&mut self, base: &Path, file: &Path, folder: &Path, place: Place, items: Vec<Item>) -> Result {
        self.modules.entry(place.clone()).or_default();
        for item in items {
            if attributes(&item).iter().any(is_for_tests) {
                continue;
            }
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    self.module(&place).children.insert(name.clone());
                    let child: Place = place.iter().cloned().chain([name.clone()]).collect();
                    let inner = folder.join(&name);
                    match module.content {
                        Some((_, items)) => self.read_items(base, file, &inner, child, items)?,
                        None if let Some(path) = path_of(&module.attrs) => {
                            // The path is relative to the file, and the files of child modules are
                            // in the same folder as that file.
                            let path = base.join(file).with_file_name(path);
                            let inner = path.parent().unwrap_or(folder).to_path_buf();
                            self.read_file(base, &path, &inner, child)?;
                        }
                        None => {
                            let beside = folder.join(format!("{name}.rs"));
                            let path = if beside.is_file() { beside } else { inner.join("mod.rs") };
                            self.read_file(base, &path, &inner, child)?;
                        }
                    }
                }
                Item::Use(item) => {
                    let line = item.span().start().line;
                    let mut leaves = Vec::new();
                    let mut prefix = Vec::new();
                    leaves_of(&item.tree, &mut prefix, &mut leaves);
                    for Leaf { path, name } in leaves {
                        if matches!(&path[0][..], "crate" | "super" | "self") {
                            self.refer(&place, path.clone(), false, file, line);
                        }
                        match name {
                            Some(name) => drop(self.module(&place).aliases.insert(name, path)),
                            None => self.module(&place).globs.push(path),
                        }
                    }
                }
                item => {
                    if let Some(name) = name_of(&item) {
                        self.module(&place).items.insert(name);
                    }
                    if let Item::Macro(item) = &item
                        && item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"))
                        && let Some(name) = &item.ident
                    {
                        self.macros.insert(name.to_string(), place.clone());
                        continue;
                    }
                    self.scan(&place, file, item.to_token_stream());
                }
            }
        }
        Ok(())
    }

    fn module(&mut self, place: &[String]) -> &mut Module {
        self.modules.entry(place.to_vec()).or_default()
    }

    fn refer(&mut self, from: &[String], path: Vec<String>, is_macro: bool, file: &Path, line: usize) {
        self.references.push(Reference { from: from.to_vec(), path, is_macro, file: file.to_owned(), line });
    }

    /// Finds the paths in code, including the arguments and the definitions of macros, which
    /// consist of tokens only.
    fn scan(&mut self, place: &[String], file: &Path, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                // The parentheses after `pub` contain the visibility of an item.
                TokenTree::Ident(ident) if ident == "pub" => {
                    if matches!(tokens.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
                    {
                        at += 1;
                    }
                }
                TokenTree::Ident(ident) if ["crate", "super", "self"].iter().any(|first| ident == first) => {
                    let line = ident.span().start().line;
                    let mut paths = Vec::new();
                    at = paths_from(&tokens, at, vec![ident.to_string()], &mut paths);
                    let is_macro = matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == '!');
                    for path in paths.into_iter().filter(|path| path.len() > 1) {
                        self.refer(place, path, is_macro, file, line);
                    }
                }
                TokenTree::Group(group) => self.scan(place, file, group.stream()),
                _ => {}
            }
        }
    }

    /// The module that defines the item of a path; `None` if another crate defines it.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Place> {
        // Aliases may be cyclic; Rust would not compile them.
        if depth > 16 {
            return None;
        }
        let mut at: Place = from.to_vec();
        let mut rest = path;
        let mut is_relative = true;
        while let [first, more @ ..] = rest {
            match &first[..] {
                "crate" => at.clear(),
                "super" => drop(at.pop()),
                "self" => {}
                _ => break,
            }
            is_relative = false;
            rest = more;
        }
        while let [name, more @ ..] = rest {
            let module = self.modules.get(&at)?;
            if module.children.contains(name) {
                at.push(name.clone());
                rest = more;
                continue;
            }
            if at.is_empty()
                && more.is_empty()
                && let Some(defined) = self.macros.get(name)
            {
                return Some(defined.clone());
            }
            if let Some(alias) = module.aliases.get(name) {
                let path: Vec<String> = alias.iter().chain(more).cloned().collect();
                return self.resolve(&at, &path, depth + 1);
            }
            if module.items.contains(name) {
                return Some(at);
            }
            let found = module.globs.iter().find_map(|glob| {
                let path: Vec<String> = glob.iter().chain(rest).cloned().collect();
                self.resolve(&at, &path, depth + 1).filter(|_| path != rest)
            });
            // An unknown name: generated by a macro, or, at the start of a path, another crate.
            return found.or_else(|| (!is_relative && depth == 0).then_some(at));
        }
        Some(at)
    }
}

/// The file of `#[path = "FILE"]`.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            path,
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(file), .. }),
            ..
        }) if path.is_ident("path") => Some(file.value()),
        _ => None,
    })
}

/// A path that a `use` line imports, and its name here; a glob has no name.
struct Leaf {
    path: Vec<String>,
    name: Option<String>,
}

fn leaves_of(tree: &UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    let whole = |prefix: &[String], name: &syn::Ident| {
        let mut path = prefix.to_vec();
        // `use a::{self}` is `use a`.
        if name != "self" || path.is_empty() {
            path.push(name.to_string());
        }
        path
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            leaves_of(&path.tree, prefix, leaves);
            prefix.pop();
        }
        UseTree::Name(name) => {
            let path = whole(prefix, &name.ident);
            leaves.push(Leaf { name: path.last().cloned(), path });
        }
        UseTree::Rename(rename) => {
            leaves.push(Leaf { path: whole(prefix, &rename.ident), name: Some(rename.rename.to_string()) });
        }
        UseTree::Glob(_) => leaves.push(Leaf { path: prefix.clone(), name: None }),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves_of(tree, prefix, leaves)),
    }
}

/// The paths that continue `path` with `::name` or `::{a, b}`. Returns the index of the token after
/// them.
fn paths_from(tokens: &[TokenTree], mut at: usize, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    while is_colon(tokens.get(at)) && is_colon(tokens.get(at + 1)) {
        match tokens.get(at + 2) {
            Some(TokenTree::Ident(name)) => path.push(name.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
                for tree in inner.split(is_comma) {
                    if let Some(TokenTree::Ident(name)) = tree.first() {
                        let longer = path.iter().cloned().chain([name.to_string()]).collect();
                        paths_from(tree, 1, longer, paths);
                    }
                }
                return at + 3;
            }
            _ => break,
        }
        at += 3;
    }
    paths.push(path);
    at
}

/// Returns whether an attribute restricts an item to tests.
fn is_for_tests(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let condition = list.tokens.to_string();
    list.path.is_ident("cfg")
        && (condition == "test" || condition.starts_with("all (test") || condition.starts_with("all(test"))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::TraitAlias(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}
