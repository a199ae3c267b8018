//! Python environments with peers that the environments of the tests do not have.

use crate::Result;
use crate::python::{self, Recipe};
use crate::workspace::Workspace;
use std::path::PathBuf;

const BENCH: Recipe = Recipe {
    folder: "venv-bench",
    list: "xtask/requirements-bench.txt",
    packages: include_str!("../../requirements-bench.txt"),
};

const BENCH_TORCH: Recipe = Recipe {
    folder: "venv-bench-torch",
    list: "xtask/requirements-bench-torch.txt",
    packages: include_str!("../../requirements-bench-torch.txt"),
};

/// The interpreter of an environment with NumPy and onnxruntime. Makes the environment if it is
/// missing.
pub(super) fn interpreter(workspace: &Workspace) -> Result<PathBuf> {
    python::environment(workspace, &BENCH)
}

/// The same with PyTorch.
pub(super) fn interpreter_with_torch(workspace: &Workspace) -> Result<PathBuf> {
    python::environment(workspace, &BENCH_TORCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{self, Show};

    #[test]
    #[cfg(target_os = "linux")]
    fn contenders_in_python_run_only_in_their_turns() {
        let workspace = Workspace::find().unwrap();
        let mut python = workspace.command("python3");
        python.arg(workspace.root().join("tests/bench/python/check_turns.py"));
        step::run("contenders take turns", &mut python, Show::Warnings).unwrap();
    }

    #[test]
    fn both_environments_have_the_same_peers_besides_torch() {
        let packages =
            |recipe: &Recipe| -> Vec<&str> { recipe.packages.lines().filter(|line| !line.starts_with('#')).collect() };
        let (few, all) = (packages(&BENCH), packages(&BENCH_TORCH));
        assert_eq!(few[..], all[..few.len()]);
        assert!(all[few.len()..].iter().any(|package| package.starts_with("torch==")));
    }
}
