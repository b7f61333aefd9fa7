//! `chartwright generate`: creates files that an operator needs besides its chart.

mod against;
mod argocd;
mod bundle;
mod catalog;
mod crd;
mod project;
mod rbac;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(super) use crd::read_overlay;

const EXAMPLES: &str = "\
Examples:
  # Create the CustomResourceDefinitions of all watches
  chartwright generate crd

  # Create the operator's role
  chartwright generate rbac -o config/rbac/role.yaml

  # Create the operator's bundle for OLM
  chartwright generate bundle --version 0.1.0

  # Create the configuration of Argo CD
  chartwright generate argocd -o config/argocd";

/// Create files that an operator needs besides its chart
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct GenerateArgs {
    #[command(subcommand)]
    command: GenerateCommand,
}

#[derive(Debug, Subcommand)]
enum GenerateCommand {
    Crd(Box<crd::CrdArgs>),
    Rbac(rbac::RbacArgs),
    Bundle(Box<bundle::BundleArgs>),
    Catalog(catalog::CatalogArgs),
    #[command(name = "argocd")]
    ArgoCd(argocd::ArgoCdArgs),
}

pub fn run(args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        GenerateCommand::Crd(args) => crd::run(args),
        GenerateCommand::Rbac(args) => rbac::run(args),
        GenerateCommand::Bundle(args) => bundle::run(args),
        GenerateCommand::Catalog(args) => catalog::run(args),
        GenerateCommand::ArgoCd(args) => argocd::run(args),
    }
}
