//! The GPUs of the build machine, on request.

use crate::Result;
use crate::cuda::architecture::Architecture;
use crate::session::Session;
use crate::tool::program::Program;

/// The result of [`detect`].
pub(crate) enum Gpus {
    Found(Vec<Architecture>),
    /// There are none, with the reason.
    None(String),
}

/// Queries nvidia-smi.
pub(crate) fn detect(session: &Session) -> Result<Gpus> {
    for name in ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"] {
        session.environment.track(name);
    }
    let Some(program) = Program::find(session, "nvidia-smi")? else {
        return Ok(Gpus::None("no nvidia-smi was found in PATH".to_owned()));
    };
    let arguments = ["--query-gpu=compute_cap", "--format=csv,noheader"];
    let printed = match program.output(session, &arguments, "nvidia-smi", ".cuda_detect_gpu()") {
        Ok(printed) => printed,
        Err(error) => return Ok(Gpus::None(first_line(&error.to_string()))),
    };
    let found: Vec<Architecture> =
        printed.lines().filter_map(|line| Architecture::parse(line.trim(), ".cuda_detect_gpu()").ok()).collect();
    if found.is_empty() {
        return Ok(Gpus::None(format!("nvidia-smi names no GPU: {}", first_line(&printed))));
    }
    Ok(Gpus::Found(found))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or("it prints nothing").to_owned()
}
