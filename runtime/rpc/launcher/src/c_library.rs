/// A C library that a board may have. The server is built for glibc, and uses only what musl also
/// has: for musl, only the name of its loader differs.
#[derive(Clone, Copy)]
pub(crate) struct CLibrary {
    /// Its name and version, for messages.
    pub(crate) name: &'static str,
    /// The path of its program loader.
    pub(crate) loader: &'static str,
}

macro_rules! loaders {
    ($($arch:literal: $glibc:literal, $musl:literal;)*) => {
        $(
            #[cfg(target_arch = $arch)]
            const LOADERS: [&str; 2] = [$glibc, $musl];
        )*
        #[cfg(not(any($(target_arch = $arch),*)))]
        compile_error!("add the names of this processor's loaders to c_library.rs");
    };
}
loaders! {
    "x86_64": "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1";
    "aarch64": "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1";
}

/// The libraries, in the order in which they are tried.
pub(crate) const C_LIBRARIES: [CLibrary; 2] = [
    CLibrary { name: "glibc 2.17 or newer", loader: LOADERS[0] },
    CLibrary { name: "musl 1.2 or newer", loader: LOADERS[1] },
];

impl CLibrary {
    /// Converts a program that was linked for the first library to a program for this library.
    pub(crate) fn adapt(self, program: &mut [u8]) {
        let [old, new] = [LOADERS[0], self.loader].map(|loader| [loader.as_bytes(), b"\0"].concat());
        // The loader's name occurs once, near the program's beginning.
        if let Some(at) = program.windows(old.len()).position(|window| window == old)
            && new.len() <= old.len()
        {
            program[at..at + old.len()].fill(0);
            program[at..at + new.len()].copy_from_slice(&new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_another_loader() {
        let [glibc, musl] = C_LIBRARIES;
        let mut program = format!("head\0{}\0tail", glibc.loader).into_bytes();
        let before = program.clone();
        glibc.adapt(&mut program);
        assert_eq!(program, before);
        musl.adapt(&mut program);
        let text = String::from_utf8(program).unwrap();
        assert_eq!(text.len(), before.len());
        assert!(text.starts_with(&format!("head\0{}\0", musl.loader)) && text.ends_with("\0tail"), "{text:?}");
        // A program without a loader is not changed.
        let mut program = *b"no loader";
        musl.adapt(&mut program);
        assert_eq!(&program, b"no loader");
    }
}
