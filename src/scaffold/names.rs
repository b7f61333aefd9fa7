//! What things are called: kinds after charts, resources after kinds.

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
