//! `chartwright generate bundle`: creates the bundle from which OLM installs the operator.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::{ArgAction, Args};

use crate::cli::stdout::{self, note, print_line};
use chartwright_scaffold::bundle::{self, BundleOptions, Made, Manifests};
use chartwright_scaffold::project::FILE;
use chartwright_scaffold::tree::{Fate, FileTree, TreeChanges, WrittenDigests};

const EXAMPLES: &str = "\
Examples:
  # The first version, with the pushed image
  chartwright generate bundle --version 0.1.0 --image registry.example.com/shop-operator:0.1.0

  # A version that replaces it
  chartwright generate bundle --version 0.2.0 --replaces 0.1.0 --channels candidate,stable

  # In CI: fail if bundle/ is outdated or breaks a rule
  chartwright generate bundle --check

  # From manifests that another program built
  kustomize build config/default | chartwright generate bundle --version 0.1.0 --input-dir -";

/// Create the bundle from which OLM installs the operator
///
/// The ClusterServiceVersion is generated from config/default, the definitions and samples of the kinds, the charts, and the
/// hand-written base in config/manifests/bases, which is created if it does not exist. A bundle that breaks a documented rule of
/// the format registry+v1 is not written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BundleArgs {
    /// Semantic version of the bundle [default: version of the existing bundle]
    #[arg(short, long, value_name = "VERSION")]
    version: Option<String>,
    /// Channels of the bundle, separated by commas [default: channels of the existing bundle, else candidate]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    channels: Vec<String>,
    /// The channel that OLM offers first
    #[arg(long, value_name = "NAME")]
    default_channel: Option<String>,
    /// Name of the package [default: the project's name]
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// The operator's image [default: that of the existing bundle if it has this version, else that of config/manager]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Version or bundle name that this bundle replaces
    #[arg(long, value_name = "VERSION")]
    replaces: Option<String>,
    /// Versions that this bundle replaces directly, such as ">=0.1.0 <0.3.0"
    #[arg(long, value_name = "RANGE")]
    skip_range: Option<String>,
    /// Manifests to read: a folder, or - for standard input [default: config/default]
    #[arg(long, value_name = "FOLDER")]
    input_dir: Option<PathBuf>,
    /// Folder to write. The Dockerfile is written beside it
    #[arg(long, value_name = "FOLDER", default_value = "bundle")]
    output_dir: PathBuf,
    /// Overwrite existing annotations.yaml and Dockerfile
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    overwrite: bool,
    /// Print only problems
    #[arg(short, long)]
    quiet: bool,
    /// Write nothing, and fail if a file would change
    #[arg(long)]
    check: bool,
}

pub fn run(args: &BundleArgs) -> Result<ExitCode> {
    let asked = args.to_request()?;
    let root = Path::new(".");
    let made = bundle::generate(root, &asked)?;
    let folder = args.output_dir.display();
    for finding in &made.findings {
        let word = if finding.is_error { "error" } else { "warning" };
        note!("{word}: {folder}/{finding}");
    }
    if !made.is_valid() {
        bail!("{} breaks the rules for bundles: nothing was written", made.name);
    }
    let parent = args.output_dir.parent().unwrap_or(root);
    let changes = made.tree(&asked).compare(parent, &WrittenDigests::new(), true)?;
    let stale = made.stale(&asked)?;
    let base = BaseChanges::of(root, &made)?;
    let all = [Some(&changes), base.changes.as_ref(), base.project.as_ref()]
        .into_iter()
        .flatten();
    if !args.quiet || args.check {
        all.clone()
            .for_each(|changes| stdout::show(format_args!("{}", changes.describe())));
        stale.iter().for_each(|file| print_line!("{}: removed", file.display()));
    }
    if args.check {
        let is_same = all
            .flat_map(|changes| &changes.files)
            .all(|file| file.fate == Fate::Unchanged);
        return Ok(if is_same && stale.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    changes.write(parent)?;
    for file in stale {
        std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
    }
    base.write(root)?;
    if !args.quiet {
        print_line!("{} keeps the rules for bundles", made.name);
    }
    Ok(ExitCode::SUCCESS)
}

impl BundleArgs {
    fn to_request(&self) -> Result<BundleOptions> {
        if self.output_dir.file_name().is_none() {
            bail!("--output-dir {}: name a folder of its own", self.output_dir.display());
        }
        let input = match &self.input_dir {
            Some(folder) if folder.as_os_str() == "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("--input-dir -")?;
                Some(Manifests::Text(text))
            }
            Some(folder) => Some(Manifests::Folder(folder.clone())),
            None => None,
        };
        Ok(BundleOptions {
            version: self.version.clone(),
            package: self.package.clone(),
            channels: self.channels.clone(),
            default_channel: self.default_channel.clone(),
            image: self.image.clone(),
            replaces: self.replaces.clone(),
            skip_range: self.skip_range.clone(),
            input,
            output: self.output_dir.clone(),
            keep_metadata: !self.overwrite,
        })
    }
}

/// The hand-written base, if it does not exist yet, and its entry in PROJECT.
struct BaseChanges {
    changes: Option<TreeChanges>,
    project: Option<TreeChanges>,
}

impl BaseChanges {
    fn of(root: &Path, made: &Made) -> Result<Self> {
        let Some((path, text)) = &made.base else {
            return Ok(BaseChanges {
                changes: None,
                project: None,
            });
        };
        let mut tree = FileTree::default();
        tree.merge(path, text.as_bytes());
        let changes = tree.compare(root, &WrittenDigests::new(), true)?;
        let mut project = None;
        if let Some(known) = &made.project {
            let mut written = known.written();
            changes.remember(&mut written);
            let mut own = FileTree::default();
            own.merge(FILE, known.to_text(&written)?);
            project = Some(own.compare(root, &written, true)?);
        }
        Ok(BaseChanges {
            changes: Some(changes),
            project,
        })
    }

    fn write(&self, root: &Path) -> Result<()> {
        let all = [&self.changes, &self.project].into_iter().flatten();
        for changes in all {
            changes.write(root)?;
        }
        Ok(())
    }
}
