//! `chartwright init`: creates a project.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::cli::stdout;
use crate::cli::stdout::{note, print_line};
use chartwright_scaffold::bundle::check::is_image;
use chartwright_scaffold::project::{self, FILE, Project};
use chartwright_scaffold::tree::{Fate, FileTree, is_as_written};
use chartwright_scaffold::{api, layout};

const BASE_IMAGE: &str = concat!("chartwright:", env!("CARGO_PKG_VERSION"));

const EXAMPLES: &str = "\
Examples:
  # In an empty folder
  chartwright init --domain example.com
  chartwright create api --group cache --kind Memcached --helm-chart ./memcached

  # With a name of its own and your own base image
  chartwright init --domain example.com --name shop-operator --base-image registry.example.com/chartwright:0.1.0";

/// Create a project in which you build, test and deploy an operator
///
/// You can run `init` again: it updates the files that it created and does not change files that you edited.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct InitArgs {
    /// Suffix of the API groups of the project's kinds. Required the first time
    #[arg(long)]
    domain: Option<String>,
    /// Name of the operator in the cluster [default: name of the folder]
    #[arg(long, visible_alias = "project-name")]
    name: Option<String>,
    /// Base image of the operator's image [default: image in the existing Dockerfile, else chartwright of this version]
    #[arg(long, value_name = "IMAGE")]
    base_image: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

/// Arguments of commands that write the files of a project.
#[derive(Args, Debug)]
pub struct WriteArgs {
    /// The project's folder
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    project: PathBuf,
    /// Overwrite files that you edited
    #[arg(long)]
    force: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

impl WriteArgs {
    pub fn root(&self) -> &Path {
        &self.project
    }

    pub fn force(&self) -> bool {
        self.force
    }

    /// Writes the files of a project and PROJECT itself, removes the files in `removed`, and prints a line per file. Files that were
    /// edited by hand stay.
    pub fn finish(&self, project: &Project, tree: FileTree, removed: &[PathBuf]) -> anyhow::Result<()> {
        let mut written = project.written();
        let changes = tree.compare(&project.root, &written, self.force)?;
        let (mut due, mut edited) = (Vec::new(), Vec::new());
        for path in removed {
            match std::fs::read(project.root.join(path)) {
                Ok(content) if self.force || is_as_written(&written, path, &content) => due.push(path),
                Ok(_) => edited.push(path),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            }
            written.remove(path.to_string_lossy().as_ref());
        }
        changes.remember(&mut written);
        let mut own = FileTree::default();
        own.merge(FILE, project.to_text(&written)?);
        let own = own.compare(&project.root, &written, self.force)?;
        for warning in &changes.warnings {
            note!("warning: {warning}");
        }
        stdout::show(format_args!("{}", changes.describe()));
        for path in &due {
            print_line!("{}: removed", path.display());
        }
        for path in &edited {
            print_line!(
                "{}: kept because it was edited by hand (--force removes it)",
                path.display()
            );
        }
        if self.dry_run {
            print_line!("nothing was written (--dry-run)");
            return Ok(());
        }
        let changes = changes.and(own);
        changes.write(&project.root)?;
        for path in due {
            std::fs::remove_file(project.root.join(path)).with_context(|| path.display().to_string())?;
            // Folders that are empty now.
            let mut folders = path.ancestors().skip(1).filter(|folder| *folder != Path::new(""));
            while folders
                .next()
                .is_some_and(|folder| std::fs::remove_dir(project.root.join(folder)).is_ok())
            {}
        }
        let kept = changes.files.iter().filter(|file| file.fate == Fate::Kept).count();
        let kept = kept + edited.len();
        if kept > 0 {
            let files = if kept == 1 { "1 file" } else { &format!("{kept} files") };
            note!("warning: left as edited by hand: {files}; --force overwrites");
        }
        Ok(())
    }
}

pub fn run(args: &InitArgs) -> anyhow::Result<()> {
    let root = args.write.root();
    let project = match Project::find(root)? {
        Some(project) => {
            let is_same = |given: &Option<String>, known: &str| given.as_deref().is_none_or(|given| given == known);
            ensure!(
                is_same(&args.domain, project.domain()) && is_same(&args.name, project.name()),
                "{} is the project {} of the domain {} already",
                root.display(),
                project.name(),
                project.domain()
            );
            project
        }
        None => {
            let absolute = std::path::absolute(root)?;
            let folder = absolute.file_name().map(|name| name.to_string_lossy().into_owned());
            let name = args.name.clone().or(folder).context("--name is missing")?;
            let domain = args
                .domain
                .as_deref()
                .context("--domain is missing, such as example.com")?;
            project::check_name(&name)?;
            project::check_domain(domain)?;
            Project::new(root, &name, domain)
        }
    };
    let base = match &args.base_image {
        Some(image) => {
            ensure!(
                is_image(image),
                "--base-image {image:?} is not the name of an image such as registry.example.com/chartwright:0.1.0"
            );
            image.clone()
        }
        None => layout::base_image(&project)?.unwrap_or_else(|| BASE_IMAGE.to_owned()),
    };
    let tree = api::init(&project, &base)?;
    std::fs::create_dir_all(root).with_context(|| root.display().to_string())?;
    args.write.finish(&project, tree, &[])?;
    print_line!("next: chartwright create api --group GROUP --kind KIND [--helm-chart CHART]");
    Ok(())
}
