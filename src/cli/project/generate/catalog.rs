//! `chartwright generate catalog`: adds a bundle to a catalog template.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::cli::stdout;
use crate::cli::stdout::print_line;
use chartwright_scaffold::bundle::catalog;
use chartwright_scaffold::tree::{FileTree, WrittenDigests};

const EXAMPLES: &str = "\
Examples:
  # Add a pushed bundle to the channel candidate
  chartwright generate catalog --bundle-image registry.example.com/shop-operator-bundle:v0.1.0

  # Add it to the channel stable
  chartwright generate catalog --bundle-image registry.example.com/shop-operator-bundle:v0.1.0 --channels stable

  # Create the catalog
  mkdir -p catalog
  opm alpha render-template semver -o yaml catalog-template.yaml > catalog/catalog.yaml";

/// Add a bundle to the template from which opm creates a file-based catalog
///
/// The template lists the images of bundles in the channels candidate, fast and stable. From each, `opm` creates a channel per major
/// version (stable-v1) with its upgrades. `opm` needs the images in a registry.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CatalogArgs {
    /// Image of the bundle
    #[arg(long, value_name = "IMAGE")]
    bundle_image: String,
    /// Channels of the bundle: candidate, fast, stable, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "candidate")]
    channels: Vec<String>,
    /// The catalog template
    #[arg(short, long, value_name = "FILE", default_value = "catalog-template.yaml")]
    output: PathBuf,
}

pub fn run(args: &CatalogArgs) -> Result<ExitCode> {
    let shown = args.output.display();
    let text = match std::fs::read_to_string(&args.output) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| shown.to_string()),
    };
    let template = catalog::with_bundle(&args.output, text.as_deref(), &args.bundle_image, &args.channels)?;
    let Some(template) = template else {
        print_line!("{shown}: lists {} already", args.bundle_image);
        return Ok(ExitCode::SUCCESS);
    };
    let mut tree = FileTree::default();
    tree.merge(&args.output, template);
    let root = PathBuf::from(".");
    let changes = tree.compare(&root, &WrittenDigests::new(), true)?;
    stdout::show(format_args!("{}", changes.describe()));
    changes.write(&root)?;
    Ok(ExitCode::SUCCESS)
}
