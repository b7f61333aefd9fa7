//! `chartwright completion SHELL`: a completion script on standard output.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  source <(chartwright completion bash)
  chartwright completion zsh > \"${fpath[1]}/_chartwright\"
  chartwright completion fish > ~/.config/fish/completions/chartwright.fish";

/// Adds the kinds, names and namespaces of the cluster, without globs in them being expanded.
const BASH_CLUSTER_WORDS: &str = r#"
_chartwright_with_cluster() {
    _chartwright "$@"
    local word found=()
    while IFS= read -r word; do
        found+=("$word")
    done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${#found[@]} -gt 0 ]]; then
        COMPREPLY=("${found[@]}")
    fi
}
complete -F _chartwright_with_cluster -o bashdefault -o default chartwright
"#;

/// Remembers the words of the command line, which the functions of the commands change.
const ZSH_WORDS: &str = r#"local -a chartwright_words=("${(@)words[1,CURRENT]}")"#;
/// What the script does first in a completion.
const ZSH_BEGIN: &str = "typeset -A opt_args";

/// Completes a kind, name or namespace of the cluster; files where the cluster has none.
const ZSH_CLUSTER_WORDS: &str = r#"
_chartwright_cluster_words() {
    local -a found
    found=(${(f)"$("${chartwright_words[1]}" __complete -- "${(@)chartwright_words[2,-1]}" 2>/dev/null)"})
    if (( $#found )); then
        compadd -a found
    else
        _default
    fi
}
"#;

/// Adds the kinds and names of the cluster.
const FISH_CLUSTER_WORDS: &str = r#"
function __chartwright_cluster_words
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    $before[1] __complete -- $before[2..-1] "$current" 2>/dev/null
end
complete -c chartwright -a '(__chartwright_cluster_words)'
"#;

/// Print a completion script for a shell
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script of the program `command` to `out`.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &CompletionArgs, mut command: clap::Command, out: &mut dyn Write) -> std::io::Result<()> {
    // Into memory first: the generator panics on a broken pipe.
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    match args.shell {
        Shell::Bash => script.extend_from_slice(BASH_CLUSTER_WORDS.as_bytes()),
        Shell::Zsh => script = with_cluster_words(&String::from_utf8_lossy(&script)).into_bytes(),
        Shell::Fish => {
            script = with_cluster_namespaces(&String::from_utf8_lossy(&script)).into_bytes();
            script.extend_from_slice(FISH_CLUSTER_WORDS.as_bytes());
        }
        _ => {}
    }
    out.write_all(&script)
}

/// Flags whose value is a namespace of the cluster.
const NAMESPACE_FLAGS: [&str; 2] = ["namespace", "operator-namespace"];

/// The script for fish, in which the values of `--namespace` are those of the cluster. fish adds no other words to the value of a flag.
fn with_cluster_namespaces(script: &str) -> String {
    let mut text = String::new();
    for line in script.lines() {
        text += line;
        let is_namespace = NAMESPACE_FLAGS
            .iter()
            .any(|flag| line.contains(&format!(" -l {flag} ")));
        if is_namespace && line.ends_with(" -r") {
            text += " -f -a '(__chartwright_cluster_words)'";
        }
        text.push('\n');
    }
    text
}

/// The script for zsh, in which kinds, names and namespaces are those of the cluster.
fn with_cluster_words(script: &str) -> String {
    let mut text = String::new();
    for line in script
        .replacen(ZSH_BEGIN, &format!("{ZSH_WORDS}\n    {ZSH_BEGIN}"), 1)
        .lines()
    {
        let argument = line.trim_start_matches(['\'', ':']);
        let is_namespace = NAMESPACE_FLAGS
            .iter()
            .any(|flag| argument.starts_with(&format!("--{flag}=[")));
        let is_cluster_word = is_namespace
            || ["kind -- ", "name -- ", "-n+["]
                .iter()
                .any(|start| argument.starts_with(start));
        match line.strip_suffix(":_default' \\") {
            Some(start) if is_cluster_word => text += &format!("{start}:_chartwright_cluster_words' \\"),
            _ => text += line,
        }
        text.push('\n');
        // The first line says what the file completes.
        if line.starts_with("#compdef") {
            text += ZSH_CLUSTER_WORDS;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_shell_has_a_script() {
        for (shell, part) in [
            ("bash", "complete -F _chartwright"),
            ("zsh", "#compdef chartwright"),
            ("fish", "complete -c chartwright"),
            ("powershell", "Register-ArgumentCompleter"),
            ("elvish", "edit:completion:arg-completer"),
        ] {
            let shell = Shell::from_str(shell, false).unwrap();
            let (mut out, args) = (Vec::new(), CompletionArgs { shell });
            run(&args, Cli::command(), &mut out).unwrap();
            let script = String::from_utf8(out).unwrap();
            assert!(script.contains(part), "{shell}: {script}");
            // A broken pipe is an error.
            assert!(run(&args, Cli::command(), &mut [0; 8].as_mut_slice()).is_err());
        }
    }

    #[test]
    fn values_of_namespace_flags_are_those_of_the_cluster() {
        let script = |name: &str| {
            let (mut out, shell) = (Vec::new(), Shell::from_str(name, false).unwrap());
            run(&CompletionArgs { shell }, Cli::command(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let zsh = script("zsh");
        let of_get = zsh.split("(get)").nth(1).unwrap();
        for flag in ["'-n+[", "'--namespace=["] {
            let line = of_get.lines().find(|line| line.starts_with(flag)).unwrap();
            assert!(line.ends_with(":NAMESPACE:_chartwright_cluster_words' \\"), "{line}");
        }
        let fish = script("fish");
        let is_flag = |line: &&str| line.contains("using_subcommand get") && line.contains(" -l namespace ");
        let line = fish.lines().find(is_flag).unwrap();
        assert!(line.ends_with(" -r -f -a '(__chartwright_cluster_words)'"), "{line}");
    }

    /// Each installed shell loads its script and completes the commands of `generate`.
    #[test]
    fn shells_complete_commands() {
        let folder = tempfile::tempdir().unwrap();
        for (name, check) in [
            (
                "bash",
                "source \"$SCRIPT\"; COMP_WORDS=(chartwright generate ''); COMP_CWORD=2
                _chartwright chartwright '' generate; echo \"${COMPREPLY[@]}\"",
            ),
            // Completion works in a terminal only, so the test only parses the script.
            (
                "zsh",
                "zsh -n \"$SCRIPT\" && grep -A 4 'generate_commands() {' \"$SCRIPT\"",
            ),
            ("fish", "source \"$SCRIPT\"; complete -C 'chartwright generate '"),
        ] {
            let shell = Shell::from_str(name, false).unwrap();
            let (mut script, file) = (Vec::new(), folder.path().join(name));
            run(&CompletionArgs { shell }, Cli::command(), &mut script).unwrap();
            std::fs::write(&file, script).unwrap();
            let output = Command::new(name).args(["-c", check]).env("SCRIPT", &file).output();
            let Ok(output) = output else {
                assert!(name != "bash", "bash is required");
                continue;
            };
            let output_text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "{name}: {output_text}");
            for word in ["crd", "rbac"] {
                assert!(output_text.contains(word), "{name}: {output_text}");
            }
        }
    }
}
