use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The documentation of an item: its doc comments, joined by newlines.
pub(crate) struct Doc {
    lines: Vec<Line>,
}

enum Line {
    Text(String),
    /// `#[doc = include_str!("...")]` and similar macros, which only the compiler can evaluate.
    Macro(Box<Expr>),
}

impl Doc {
    pub(crate) fn of(attributes: &[Attribute]) -> Self {
        let mut lines = Vec::new();
        for attribute in attributes {
            let Meta::NameValue(meta) = &attribute.meta else { continue };
            if !meta.path.is_ident("doc") {
                continue;
            }
            match &meta.value {
                Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => push_comment(&mut lines, &text.value()),
                other => lines.push(Line::Macro(Box::new(other.clone()))),
            }
        }
        while matches!(lines.last(), Some(Line::Text(text)) if text.trim().is_empty()) {
            lines.pop();
        }
        let blank = lines.iter().take_while(|line| matches!(line, Line::Text(text) if text.trim().is_empty())).count();
        lines.drain(..blank);
        Self { lines }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns a `&'static str` expression with one more paragraph.
    pub(crate) fn with_paragraph(&self, paragraph: &str) -> TokenStream {
        if self.is_empty() {
            return paragraph.to_token_stream();
        }
        let end = format!("\n\n{paragraph}");
        quote!(::core::concat!(#self, #end))
    }
}

/// Adds one `///` line, or all lines of a `/** */` comment, without comment decoration.
fn push_comment(lines: &mut Vec<Line>, comment: &str) {
    let starred = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('*');
    let block = comment.contains('\n') && comment.lines().skip(1).all(starred);
    for (index, line) in comment.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let line = if block && index > 0 {
            let line = line.trim_start();
            line.strip_prefix('*').unwrap_or(line)
        } else {
            line
        };
        lines.push(Line::Text(line.strip_prefix(' ').unwrap_or(line).to_owned()));
    }
}

/// Generates a `&'static str` expression.
impl ToTokens for Doc {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let mut pieces: Vec<TokenStream> = Vec::new();
        let mut text = String::new();
        for (index, line) in self.lines.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            match line {
                Line::Text(line) => text.push_str(line),
                Line::Macro(expression) => {
                    if !text.is_empty() {
                        pieces.push(std::mem::take(&mut text).to_token_stream());
                    }
                    pieces.push(expression.to_token_stream());
                }
            }
        }
        if pieces.is_empty() {
            text.to_tokens(tokens);
            return;
        }
        if !text.is_empty() {
            pieces.push(text.to_token_stream());
        }
        tokens.extend(quote!(::core::concat!(#(#pieces),*)));
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    #[track_caller]
    fn check(input: &str, expect: &str) {
        let item: syn::ItemFn = syn::parse_str(&format!("{input}\nfn f() {{}}")).unwrap();
        assert_eq!(super::Doc::of(&item.attrs).to_token_stream().to_string(), expect);
    }

    #[test]
    fn comments() {
        check("", r#""""#);
        check("/// Adds.", r#""Adds.""#);
        check("/// Adds.\n///\n///   indented\n", r#""Adds.\n\n  indented""#);
        check("/** One.\n * Two.\n */", r#""One.\nTwo.""#);
        check("/** One.\n  * a\n  b */", r#""One.\n * a\n b ""#);
        check("///no space", r#""no space""#);
        check("#[doc = \"said \\\"hi\\\"\"]", r#""said \"hi\"""#);
        check("#[doc(hidden)]", r#""""#);
    }

    #[test]
    fn macros_stay_macros() {
        let code = r#":: core :: concat ! ("Intro.\n" , include_str ! ("a.md") , "\nEnd.")"#;
        check("/// Intro.\n#[doc = include_str!(\"a.md\")]\n/// End.", code);
    }
}
