use kernpack::{AnyView, FromAny, Result, ensure, error};

/// The arguments of a function of the server, with type errors that name the function.
pub(super) struct Arguments<'a> {
    function: &'static str,
    views: &'a [AnyView<'a>],
}

impl<'a> Arguments<'a> {
    /// Checks the number of arguments for parameters of these names; the last ones may be missing
    /// if they end with `?`.
    pub(super) fn new(function: &'static str, names: &[&str], views: &'a [AnyView<'a>]) -> Result<Self> {
        let least = names.iter().take_while(|name| !name.ends_with('?')).count();
        ensure!(
            (least..=names.len()).contains(&views.len()),
            TypeError,
            "{function}({}): expected {} arguments, got {}",
            names.join(", "),
            if least == names.len() { least.to_string() } else { format!("{least} to {}", names.len()) },
            views.len()
        );
        Ok(Self { function, views })
    }

    /// An argument.
    pub(super) fn get<T: FromAny<'a>>(&self, index: usize, name: &str) -> Result<T> {
        let view = self.views.get(index).unwrap_or(&AnyView::NONE);
        view.get().map_err(|problem| error!(TypeError, "{}: argument '{name}': {}", self.function, problem.message()))
    }

    /// An argument that may be missing.
    pub(super) fn get_or<T: FromAny<'a>>(&self, index: usize, name: &str, default: T) -> Result<T> {
        if index < self.views.len() { self.get(index, name) } else { Ok(default) }
    }
}
