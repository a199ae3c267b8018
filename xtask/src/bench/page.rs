//! The page with the tables, `docs/performance.md`: a section for each command, and in it one for
//! each kind of processor.

use super::machine;
use crate::Result;
use crate::workspace::Workspace;
use std::fs;

const PAGE: &str = "docs/performance.md";

/// Writes the measurements of this machine into a section of the page. Tables of other processors
/// are kept.
pub(super) fn write(workspace: &Workspace, heading: &str, text: &str) -> Result {
    let page = workspace.root().join(PAGE);
    let known = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let kind = machine::kind(workspace);
    fs::write(&page, with_section(&known, heading, kind, text))
        .map_err(|error| format!("{}: {error}", page.display()))?;
    println!("written to {PAGE}, {}, {kind}", heading.trim());
    Ok(())
}

/// The page with this text below `### KIND` of the section of this heading. A missing heading is
/// added at the end of the section or of the page.
fn with_section(page: &str, heading: &str, kind: &str, text: &str) -> String {
    let text = text.trim_end();
    let Some((before, rest)) = page.split_once(heading) else {
        return format!("{}\n\n{heading}\n### {kind}\n\n{text}\n", page.trim_end());
    };
    let (section, after) = rest.split_at(rest.find("\n## ").unwrap_or(rest.len()));
    let title = format!("\n### {kind}\n");
    let (first, old) = section.split_once(&title).unwrap_or((section, ""));
    let others = &old[old.find("\n### ").unwrap_or(old.len())..];
    let first = first.trim_end();
    let end = if first.is_empty() { "" } else { "\n" };
    let section = format!("{first}{end}{title}\n{text}\n{others}");
    format!("{before}{heading}{section}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_written_anew_and_other_processors_stay() {
        let heading = "## Models\n";
        let page = with_section("# Page\n\n## Calls\n\ntable\n", heading, "Intel", "first\n");
        assert_eq!(page, "# Page\n\n## Calls\n\ntable\n\n## Models\n\n### Intel\n\nfirst\n");
        let page = with_section(&page, heading, "AMD", "second\n");
        assert!(page.ends_with("## Models\n\n### Intel\n\nfirst\n\n### AMD\n\nsecond\n"), "{page}");
        let page = with_section(&format!("{page}\n## More\n\nlast\n"), heading, "Intel", "third\n");
        let expected =
            "# Page\n\n## Calls\n\ntable\n\n## Models\n\n### Intel\n\nthird\n\n### AMD\n\nsecond\n\n## More\n\nlast\n";
        assert_eq!(page, expected);
        // Writing the same text again changes nothing.
        assert_eq!(with_section(&page, heading, "Intel", "third\n"), expected);
        assert_eq!(with_section(&page, heading, "AMD", "second"), expected);
    }
}
