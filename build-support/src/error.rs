use std::fmt;

/// An error of a build, with a message for the user.
///
/// `Debug` prints the same text as `Display`, so that `fn main() -> kernpack_build::Result<()>`
/// shows it well. An error contains every problem of a build: a failed kernel does not hide the
/// others.
pub struct Error {
    /// The problems, at least one, each a complete message of one or more lines.
    problems: Vec<String>,
}

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error with one problem.
    pub fn new(message: impl Into<String>) -> Self {
        Self { problems: vec![message.into()] }
    }

    /// Creates an error with several problems, at least one.
    #[cfg(feature = "compiler")]
    pub(crate) fn of_problems(problems: Vec<String>) -> Self {
        Self { problems }
    }

    /// Returns all values, or all problems of all errors.
    pub(crate) fn collect<T>(results: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
        let mut values = Vec::new();
        let mut problems = Vec::new();
        for result in results {
            match result {
                Ok(value) => values.push(value),
                Err(error) => problems.extend(error.problems),
            }
        }
        if problems.is_empty() { Ok(values) } else { Err(Self { problems }) }
    }

    /// Returns both values, or the problems of both.
    pub(crate) fn both<A, B>(a: Result<A>, b: Result<B>) -> Result<(A, B)> {
        match (a, b) {
            (Ok(a), Ok(b)) => Ok((a, b)),
            (Err(mut error), Err(other)) => {
                error.problems.extend(other.problems);
                Err(error)
            }
            (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
        }
    }

    /// Puts "`context`: " in front of every problem.
    #[cfg(feature = "llvm")]
    pub(crate) fn within(mut self, context: &str) -> Self {
        for problem in &mut self.problems {
            *problem = format!("{context}: {problem}");
        }
        self
    }

    /// The problems, one message each.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [problem] => f.write_str(problem),
            problems => {
                write!(f, "{} problems", problems.len())?;
                for problem in problems {
                    write!(f, "\n\n{problem}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for Error {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

#[cfg(feature = "llvm")]
mod llvm {
    use super::Error;

    impl From<inkwell::Error> for Error {
        fn from(error: inkwell::Error) -> Self {
            Self::new(error.to_string())
        }
    }

    impl From<inkwell::builder::BuilderError> for Error {
        fn from(error: inkwell::builder::BuilderError) -> Self {
            Self::new(error.to_string())
        }
    }

    impl From<inkwell::support::LLVMString> for Error {
        fn from(error: inkwell::support::LLVMString) -> Self {
            Self::new(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_reads_like_display() {
        let error = Error::new("kernels/blur.c: no such file");
        assert_eq!(format!("{error:?}"), "kernels/blur.c: no such file");
    }

    #[test]
    fn every_problem_is_shown() {
        let error = Error::collect([Err("a".into()), Ok(1), Err(Error::new("b"))]).unwrap_err();
        assert_eq!(error.to_string(), "2 problems\n\na\n\nb");
        assert_eq!(Error::collect([Ok(1), Ok(2)]).unwrap(), [1, 2]);
        assert_eq!(error.problems(), ["a", "b"]);
    }

    #[test]
    fn the_problems_of_both_are_shown() {
        let both = |a: Result<u8>, b: Result<char>| Error::both(a, b).map_err(|error| error.problems().join(", "));
        assert_eq!(both(Ok(1), Ok('x')), Ok((1, 'x')));
        assert_eq!(both(Err("a".into()), Ok('x')), Err("a".to_owned()));
        assert_eq!(both(Ok(1), Err("b".into())), Err("b".to_owned()));
        assert_eq!(both(Err("a".into()), Err("b".into())), Err("a, b".to_owned()));
    }

    #[cfg(feature = "llvm")]
    #[test]
    fn a_context_stands_before_every_problem() {
        let error = Error::collect::<()>([Err("a".into()), Err("b".into())]).unwrap_err();
        assert_eq!(error.within("x").problems(), ["x: a", "x: b"]);
    }
}
