//! Boolean flags as Go programs read them, for the commands that take the flags of a Go program.

use chartwright_core::annotations::parse_bool;
use clap::builder::ValueParser;
use clap::{Arg, ArgAction};

/// Lets a switch take a value after `=`: `--leader-elect=false`. Other arguments are returned unchanged.
pub(super) fn as_switch(arg: Arg, parse: fn(&str) -> Result<bool, String>) -> Arg {
    match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true)
            .value_parser(ValueParser::from(parse)),
        _ => arg,
    }
}

/// Parses a boolean as Go's `strconv.ParseBool` does.
pub(super) fn go_bool(text: &str) -> Result<bool, String> {
    parse_bool(text).ok_or_else(|| "use true or false".to_owned())
}
