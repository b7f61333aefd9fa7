//! What things are called: kinds after charts, resources after kinds, and what a chart may be called.

use anyhow::ensure;

/// The longest name of a chart that Helm accepts, in bytes.
const MAX_CHART_NAME: usize = 250;

/// Checks the name of a chart, or of a dependency, before a path is made of it. The characters are those of `helm create`
/// (`pkg/chart/v2/util/create.go`). Helm's loader accepts others, such as `/` and `$(x)`. A name that a shell takes for an option,
/// that a listing hides, or that is the folder of another chart's tests is refused, too.
///
/// # Errors
/// What a name must be like.
pub fn check_chart_name(name: &str) -> anyhow::Result<()> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_valid = name.len() <= MAX_CHART_NAME
        && name.starts_with(is_word)
        && name.chars().all(|c| is_word(c) || matches!(c, '.' | '-'));
    ensure!(
        is_valid,
        "{name:?} can't be the name of a chart: at most {MAX_CHART_NAME} letters, digits, `-`, `_` and `.`, the first a letter, a \
         digit or `_`, as in kube-state-metrics"
    );
    ensure!(
        ![".verify", ".crd.yaml", ".tgz"].iter().any(|end| name.ends_with(end)),
        "{name:?} can't be the name of a chart: NAME.verify, NAME.crd.yaml and NAME.tgz are files of the chart NAME"
    );
    Ok(())
}

/// Checks the exact version of a chart before a path is made of it.
///
/// # Errors
/// What a version must be like.
pub fn check_chart_version(version: &str) -> anyhow::Result<()> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    ensure!(
        version.starts_with(|c: char| c.is_ascii_alphanumeric())
            && version.len() <= 128
            && version.chars().all(is_word),
        "{version:?} can't be the version of a chart: letters, digits, `.`, `-` and `+`, as in 1.2.3"
    );
    Ok(())
}

/// The plural of a kind in small letters, as kubebuilder's libraries form it.
pub fn plural(kind: &str) -> String {
    let word = kind.to_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
    if ends(&["s", "x", "z", "ch", "sh"]) {
        return word + "es";
    }
    let before = word.chars().rev().nth(1);
    match word.strip_suffix('y') {
        Some(stem) if before.is_some_and(|letter| !"aeiou".contains(letter)) => format!("{stem}ies"),
        _ => word + "s",
    }
}

/// The kind that a chart of this name makes: `kube-state-metrics` makes `KubeStateMetrics`.
pub fn kind_of_chart(chart: &str) -> String {
    let words = chart
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    words.filter_map(capital).collect()
}

/// The chart that a kind is made from: `KubeStateMetrics` from `kube-state-metrics`.
pub fn chart_of_kind(kind: &str) -> String {
    let (mut name, mut was_small) = (String::new(), false);
    for letter in kind.chars() {
        if letter.is_ascii_uppercase() && was_small {
            name.push('-');
        }
        was_small = !letter.is_ascii_uppercase();
        name.extend(letter.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_plurals() {
        for (kind, expected) in [
            ("Memcached", "memcacheds"),
            ("Redis", "redises"),
            ("Proxy", "proxies"),
            ("Gateway", "gateways"),
            ("Box", "boxes"),
            ("Batch", "batches"),
            ("Y", "ys"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn kinds_have_charts() {
        for (kind, expected) in [
            ("Web", "web"),
            ("KubeStateMetrics", "kube-state-metrics"),
            ("SampleDB", "sample-db"),
        ] {
            assert_eq!(chart_of_kind(kind), expected);
        }
    }

    #[test]
    fn names_of_charts_are_harmless_in_paths_and_shells() {
        for name in [
            "web",
            "kube-state-metrics",
            "a_b.c",
            "_lib",
            "Web",
            "0",
            &"a".repeat(250),
        ] {
            assert!(check_chart_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "/",
            "a/b",
            ".",
            "..",
            ".hidden",
            "-rf",
            "$(touch x)",
            "a b",
            "a\nb",
            "a\u{1b}[2J",
            "ä",
            "a\\b",
            "a:b",
            "web.verify",
            "web.crd.yaml",
            "web.tgz",
            &"a".repeat(251),
        ] {
            assert!(check_chart_name(name).is_err(), "{name:?}");
        }
        let shown = check_chart_name("a\u{1b}[2J").unwrap_err().to_string();
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert!(check_chart_version("1.2.3-rc.1+build.5").is_ok() && check_chart_version("v1").is_ok());
        for version in ["", "1/../../x", "-1", "1 2", "1\n", &"1".repeat(129)] {
            assert!(check_chart_version(version).is_err(), "{version:?}");
        }
    }

    #[test]
    fn charts_make_kinds() {
        for (chart, expected) in [
            ("nginx", "Nginx"),
            ("kube-state-metrics", "KubeStateMetrics"),
            ("a_b.c", "ABC"),
            ("", ""),
        ] {
            assert_eq!(kind_of_chart(chart), expected);
        }
    }
}
