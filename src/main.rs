//! The program: reads the arguments and hands over to the command.

use std::process::ExitCode;

fn main() -> ExitCode {
    chartwright::cli::main()
}
