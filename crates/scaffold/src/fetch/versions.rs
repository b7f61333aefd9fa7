//! Picks the version of a chart that is wanted.

use std::cmp::Ordering;

use anyhow::{Context as _, anyhow};

use helm_template::sprig::semver::{Constraints, Version};

/// The place of the version that is wanted: the one that is called exactly so, else the newest that the constraint allows;
/// the newest stable one if nothing is wanted.
///
/// # Errors
/// What is wanted is no constraint, or nothing satisfies it.
pub fn pick(versions: &[&str], wanted: &str) -> anyhow::Result<usize> {
    if let Some(exact) = versions.iter().position(|version| *version == wanted) {
        return Ok(exact);
    }
    let constraint = if wanted.is_empty() { "*" } else { wanted };
    let constraint = Constraints::parse(constraint).map_err(|error| anyhow!("{wanted:?} is no version: {error}"))?;
    let read = versions.iter().enumerate();
    let read = read.filter_map(|(at, version)| Some((at, Version::parse(version).ok()?)));
    let fitting = read.filter(|(_, version)| constraint.check(version));
    // Of equals the first: what stands in an index first.
    let newest = fitting.reduce(|best, next| match next.1.compare(&best.1) {
        Ordering::Greater => next,
        _ => best,
    });
    let what = match wanted {
        "" => "there is no stable version; --helm-chart-version \">0-0\" takes any".to_owned(),
        wanted => format!("no version satisfies {wanted:?}"),
    };
    newest.map(|(at, _)| at).with_context(|| match versions {
        [] => "there is no version at all".to_owned(),
        some => format!("{what}; there are: {}", some[..some.len().min(5)].join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_picked_as_helm_does() {
        let versions = [
            "2.0.0-rc.1",
            "1.2.0",
            "1.10.1",
            "1.9.0",
            "v0.3.0",
            "nonsense",
            "1.10.1+build.2",
        ];
        for (wanted, want) in [
            ("", "1.10.1"),
            ("1.9.0", "1.9.0"),
            ("~1.9", "1.9.0"),
            ("~1.2", "1.2.0"),
            ("^1", "1.10.1"),
            ("<1.10", "1.9.0"),
            ("0.3.0", "v0.3.0"),
            ("1.10.1+build.2", "1.10.1+build.2"),
            (">0-0", "2.0.0-rc.1"),
            (">=2.0.0-0", "2.0.0-rc.1"),
            ("nonsense", "nonsense"),
            ("1.x || >=3", "1.10.1"),
        ] {
            assert_eq!(versions[pick(&versions, wanted).unwrap()], want, "{wanted}");
        }
        for (versions, wanted, want) in [
            (
                &versions[..],
                "3",
                "no version satisfies \"3\"; there are: 2.0.0-rc.1, 1.2.0",
            ),
            (&versions[..], "no", "\"no\" is no version: improper constraint"),
            (&["1.0.0-rc"], "", "there is no stable version"),
            (&[], "", "there is no version at all"),
        ] {
            let error = pick(versions, wanted).unwrap_err().to_string();
            assert!(error.starts_with(want), "{wanted}: {error}");
        }
    }
}
