//! Links between pages, and the lists of pages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use chartwright_scaffold::tree::normal;
use regex::Regex;

/// Where a link of a page leads.
struct Link {
    /// As the page has it.
    text: String,
    /// The file or folder; the page itself for an anchor alone.
    target: PathBuf,
    anchor: Option<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Adds the markdown files below a folder.
fn add_pages(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            add_pages(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    Ok(())
}

/// The markdown files below docs/.
fn documentation() -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    add_pages(&root().join("docs"), &mut pages)?;
    Ok(pages)
}

/// The lines of a page without its code blocks.
fn prose(page: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines
}

/// The relative links of a page.
fn links(path: &Path) -> Result<Vec<Link>> {
    let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let pattern = Regex::new(r"\]\(([^)#: ]*)(?:#([^) ]+))?\)")?;
    let text = prose(&page).join("\n");
    let found = pattern.captures_iter(&text).map(|found| Link {
        text: found[0].to_owned(),
        target: match &found[1] {
            "" => path.to_owned(),
            relative => normal(&path.with_file_name(relative)),
        },
        anchor: found.get(2).map(|anchor| anchor.as_str().to_owned()),
    });
    Ok(found.collect())
}

/// The anchors that GitHub gives the headings of a page.
fn anchors(page: &str) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for anchor in prose(page).into_iter().filter_map(anchor) {
        let count = counts.entry(anchor.clone()).or_default();
        anchors.push(match *count {
            0 => anchor,
            count => format!("{anchor}-{count}"),
        });
        *count += 1;
    }
    anchors
}

/// The anchor of a heading, without the number of one that is there already.
fn anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let kept = title.to_lowercase().replace(' ', "-");
    Some(
        kept.chars()
            .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect(),
    )
}

#[test]
fn relative_links_and_anchors_resolve() -> Result<()> {
    let mut pages: Vec<PathBuf> = [
        "README.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "tests/README.md",
        "fuzz/README.md",
    ]
    .map(|page| root().join(page))
    .into();
    for entry in fs::read_dir(root().join("crates"))? {
        let page = entry?.path().join("README.md");
        if page.exists() {
            pages.push(page);
        }
    }
    pages.extend(documentation()?);
    let mut broken = Vec::new();
    for page in pages {
        let shown = page.strip_prefix(root())?.display().to_string();
        for link in links(&page)? {
            let is_there = match &link.anchor {
                None => link.target.exists(),
                Some(anchor) => fs::read_to_string(&link.target).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            if !is_there {
                broken.push(format!("{shown}: {}", link.text));
            }
        }
    }
    ensure!(broken.is_empty(), "broken links: {broken:#?}");
    Ok(())
}

/// The site has each page once, and the index of docs/ names each.
#[test]
fn summary_and_index_list_every_page() -> Result<()> {
    let docs = root().join("docs");
    let (summary, index) = (docs.join("SUMMARY.md"), docs.join("README.md"));
    let mut pages = documentation()?;
    pages.retain(|page| *page != summary);
    pages.sort();
    let listed = |page: &Path| -> Result<Vec<PathBuf>> {
        let mut listed: Vec<PathBuf> = links(page)?.into_iter().map(|link| link.target).collect();
        listed.sort();
        Ok(listed)
    };
    ensure!(
        listed(&summary)? == pages,
        "SUMMARY.md does not list every page of docs/ once: {pages:#?}"
    );
    let indexed = listed(&index)?;
    for page in pages.iter().filter(|page| **page != index) {
        ensure!(indexed.contains(page), "docs/README.md lacks {}", page.display());
    }
    Ok(())
}

#[test]
fn anchors_are_those_of_github() {
    let page = "# A page\n## `run`, and more\n```sh\n# a comment\n```\n## Twice\n## Twice\n#no heading\n";
    assert_eq!(anchors(page), ["a-page", "run-and-more", "twice", "twice-1"]);
}
