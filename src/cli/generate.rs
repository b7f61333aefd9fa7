//! `chartwright generate`: files that an operator needs beside its chart.

mod against;
mod crd;
mod project;
mod rbac;

use std::process::ExitCode;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  # The CustomResourceDefinitions of all watches
  chartwright generate crd

  # What the operator may do
  chartwright generate rbac -o config/rbac/role.yaml";

/// Make files that an operator needs beside its chart
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Crd(Box<crd::CrdArgs>),
    Rbac(rbac::RbacArgs),
}

pub fn run(args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Crd(args) => crd::run(args),
        What::Rbac(args) => rbac::run(args),
    }
}
