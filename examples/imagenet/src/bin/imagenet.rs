//! `imagenet PATH..`: prints the classes of photographs.

use std::process::ExitCode;

use imagenet::classify_path;

const USAGE: &str = "usage: imagenet PATH..    (JPEG and PNG files)";

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() || paths.iter().any(|path| path.starts_with("--")) {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let mut failed = false;
    for path in paths {
        match classify_path(&path) {
            Ok(found) => {
                println!("{path}:");
                for one in found {
                    println!("  {:5.1} %  {}", 100.0 * one.score, one.label);
                }
            }
            Err(error) => {
                eprintln!("imagenet: {}", error.message());
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
