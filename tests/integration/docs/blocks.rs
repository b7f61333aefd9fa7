//! The code blocks of a page, and what a reader does with each.

use anyhow::{Context as _, Result, bail, ensure};

/// What is done with a block.
#[derive(Debug, PartialEq, Eq)]
pub enum DocStep {
    /// Commands, which succeed.
    Run(String),
    /// Commands, which are refused: `<!-- fails -->` stands before the block.
    Fail(String),
    /// A command that is left running: `<!-- left running -->` stands before the block.
    Leave(String),
    /// A file: its name is the comment in the block's first line.
    Write { path: String, text: String },
    /// What the commands before print.
    Shows(String),
    /// Nothing: `<!-- not run: why -->` stands before the block.
    NotRun,
}

/// A code block.
#[derive(Debug)]
pub struct DocBlock {
    /// Where it begins, from 1.
    pub line: usize,
    pub step: DocStep,
}

/// The code blocks of a page.
///
/// # Errors
/// One that can be neither run nor written, and isn't marked so.
pub fn read(page: &str) -> Result<Vec<DocBlock>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().zip(1..);
    let mut before = "";
    while let Some((text, line)) = lines.next() {
        if let Some(language) = text.strip_prefix("```") {
            let mut content = String::new();
            for (text, _) in lines.by_ref().take_while(|(text, _)| *text != "```") {
                content += text;
                content.push('\n');
            }
            let step = step(before, language, content).with_context(|| format!("the block in line {line}"))?;
            blocks.push(DocBlock { line, step });
        }
        ensure!(
            !text.trim_start().starts_with("```") || text.starts_with("```"),
            "line {line}: an indented block"
        );
        before = text;
    }
    Ok(blocks)
}

fn step(before: &str, language: &str, text: String) -> Result<DocStep> {
    let marker = before.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
    Ok(match (marker, language) {
        (Some(marker), _) if marker.strip_prefix("not run: ").is_some_and(|why| !why.is_empty()) => DocStep::NotRun,
        (Some("fails"), "sh") => DocStep::Fail(text),
        (Some("left running"), "sh") => DocStep::Leave(text),
        (Some(marker), _) => bail!("the marker `{marker}` says nothing about {language:?}"),
        (None, "sh") => DocStep::Run(text),
        (None, "text") => DocStep::Shows(text),
        (None, _) => {
            let first = text.lines().next().and_then(|line| line.strip_prefix("# "));
            match first.context("its first line names no file, and it isn't marked as not run")? {
                command if command.starts_with("kubectl ") => DocStep::Run(format!("{command} <<'END'\n{text}END\n")),
                path if path.contains(['.', '/']) && !path.contains(' ') => DocStep::Write {
                    path: path.to_owned(),
                    text,
                },
                other => bail!("{other:?} is no file's name"),
            }
        }
    })
}

#[test]
fn blocks_are_run_or_marked() -> Result<()> {
    let page = "# A page\n```sh\nls\n```\n```text\na b\n```\n<!-- not run: it takes a day -->\n```sh\nmake world\n```\n\
                ```yaml\n# a/b.yaml\nx: 1\n```\n```yaml\n# kubectl apply -f -\ny: 2\n```\n<!-- fails -->\n```sh\nfalse\n```\n\
                <!-- left running -->\n```sh\nrun\n```\n";
    let blocks = read(page)?;
    let text = "# a/b.yaml\nx: 1\n".to_owned();
    let expected = [
        DocStep::Run("ls\n".into()),
        DocStep::Shows("a b\n".into()),
        DocStep::NotRun,
        DocStep::Write {
            path: "a/b.yaml".into(),
            text,
        },
        DocStep::Run("kubectl apply -f - <<'END'\n# kubectl apply -f -\ny: 2\nEND\n".into()),
        DocStep::Fail("false\n".into()),
        DocStep::Leave("run\n".into()),
    ];
    ensure!(blocks.iter().map(|block| &block.step).eq(&expected), "{blocks:?}");
    ensure!(blocks[1].line == 5);
    for wrong in [
        "```yaml\nx: 1\n```\n",
        "```\nx\n```\n",
        "<!-- not run -->\n```sh\nls\n```\n",
        "<!-- fails -->\n```yaml\n# a.yaml\n```\n",
        "```yaml\n# A list of things\n```\n",
        "- an item\n  ```sh\n  ls\n  ```\n",
    ] {
        ensure!(read(wrong).is_err(), "{wrong}");
    }
    Ok(())
}
