use kernpack::{Result, bail, ensure, error};

fn misspelt(radius: i64) -> Result<i64> {
    if radius < 0 {
        bail!(ValueEror, "radius must be positive, got {radius}");
    }
    Ok(radius)
}

fn as_text(radius: i64) -> Result<i64> {
    ensure!(radius > 0, "ValueError", "radius must be positive, got {radius}");
    Err(error!(MyError, "no constant of this name"))
}

fn main() {}
