use proc_macro2::{Group, Ident, Spacing, TokenStream, TokenTree};

/// Replaces every named lifetime in the type's tokens by `'_`, for use outside the item that
/// declares the lifetime.
pub(crate) fn elide(tokens: TokenStream) -> TokenStream {
    let mut after_quote = false;
    tokens
        .into_iter()
        .map(|token| {
            let name = std::mem::replace(&mut after_quote, is_quote(&token));
            match token {
                TokenTree::Ident(lifetime) if name && lifetime != "static" => Ident::new("_", lifetime.span()).into(),
                TokenTree::Group(group) => {
                    let mut elided = Group::new(group.delimiter(), elide(group.stream()));
                    elided.set_span(group.span());
                    elided.into()
                }
                other => other,
            }
        })
        .collect()
}

fn is_quote(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '\'' && punct.spacing() == Spacing::Joint)
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(input: &str, expect: &str) {
        let expect: proc_macro2::TokenStream = expect.parse().unwrap();
        assert_eq!(super::elide(input.parse().unwrap()).to_string(), expect.to_string());
    }

    #[test]
    fn named_lifetimes_become_anonymous() {
        check("&'a str", "&'_ str");
        check("(View<'a, u8>, [&'long i64])", "(View<'_, u8>, [&'_ i64])");
        check("&'static str", "&'static str");
        check("Vec<i64>", "Vec<i64>");
    }
}
