//! `chartwright generate catalog`: the template that a catalogue is made from.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::cli::stdout;
use crate::cli::stdout::print_line;
use chartwright_scaffold::bundle::catalog;
use chartwright_scaffold::tree::{Tree, Written};

const EXAMPLES: &str = "\
Examples:
  # A bundle whose image was pushed, for those who try it
  chartwright generate catalog --bundle-image registry.example.com/shop-operator-bundle:v0.1.0

  # It has proven itself
  chartwright generate catalog --bundle-image registry.example.com/shop-operator-bundle:v0.1.0 --channels stable

  # The catalogue
  mkdir -p catalog
  opm alpha render-template semver -o yaml catalog-template.yaml > catalog/catalog.yaml";

/// Add a bundle to the template that opm makes a file-based catalogue from
///
/// The template lists the images of bundles in the channels candidate, fast and stable; `opm` makes a channel of each with the
/// major version (stable-v1) and the upgrades within it. The images have to be in a registry by then.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CatalogArgs {
    /// The bundle's image
    #[arg(long, value_name = "IMAGE")]
    bundle_image: String,
    /// The channels that it belongs to: candidate, fast, stable, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "candidate")]
    channels: Vec<String>,
    /// The template
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
    let mut tree = Tree::default();
    tree.merge(&args.output, template);
    let root = PathBuf::from(".");
    let changes = tree.compare(&root, &Written::new(), true)?;
    stdout::show(format_args!("{}", changes.told()));
    changes.write(&root)?;
    Ok(ExitCode::SUCCESS)
}
