//! Finds the kind that a person named, as kubectl does: `memcached`, `memcacheds`, `memcacheds.cache.example.com`.

use anyhow::bail;

use chartwright_core::identity::GroupKind;
use chartwright_operator::cluster::discovery::{Resource, Snapshot};
use chartwright_watches::suggestion;

/// Finds the kind that `text` names, singular or plural, with or without its group.
///
/// # Errors
/// No kind or several kinds have this name. The message names the closest kind, or the candidates.
pub(in crate::cli) fn find_kind<'s>(
    snapshot: &'s Snapshot,
    text: &str,
) -> anyhow::Result<(&'s GroupKind, &'s Resource)> {
    let (word, group) = match text.split_once('.') {
        Some((word, group)) => (word.to_lowercase(), Some(group)),
        None => (text.to_lowercase(), None),
    };
    let is_selected = |(group_kind, resource): &(&GroupKind, &Resource)| {
        group.is_none_or(|group| group == group_kind.group)
            && (group_kind.kind.to_lowercase() == word || resource.api.plural == word)
    };
    let mut found: Vec<_> = snapshot.kinds().filter(is_selected).collect();
    found.sort_by_key(|(group_kind, _)| *group_kind);
    match found.as_slice() {
        [one] => Ok(*one),
        [] => bail!("the API server serves no kind {text:?}{}", did_you_mean(snapshot, text)),
        several => {
            let names: Vec<String> = several.iter().map(|(group_kind, _)| group_kind.to_string()).collect();
            bail!("{text:?} may be any of {}: write one of them", names.join(", "))
        }
    }
}

/// Names the served kind that is closest to `text`.
fn did_you_mean(snapshot: &Snapshot, text: &str) -> String {
    let mut names: Vec<String> = snapshot
        .kinds()
        .flat_map(|(group_kind, resource)| {
            let kind = group_kind.kind.to_lowercase();
            let plural = resource.api.plural.clone();
            if text.contains('.') {
                [
                    format!("{kind}.{}", group_kind.group),
                    format!("{plural}.{}", group_kind.group),
                ]
            } else {
                [kind, plural]
            }
        })
        .collect();
    names.sort();
    match suggestion(text, names.iter().map(String::as_str)) {
        Some(best) => format!(": did you mean {best}?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use chartwright_operator::cluster::{Discovery, connection};
    use helm_template::render::Capabilities;

    use super::*;

    fn discovery() -> Discovery {
        let kind = |group: &str, kind: &str| Resource::offline(&GroupKind::new(group, kind), "v1", true);
        let served = [
            kind("cache.example.com", "Memcached"),
            kind("a.example.com", "Web"),
            kind("b.example.com", "Web"),
        ];
        Discovery::offline(
            connection::unconnected_client().unwrap(),
            Capabilities::default(),
            served,
        )
    }

    #[tokio::test]
    async fn kinds_are_found_by_all_their_names() {
        let snapshot = discovery().snapshot();
        for text in [
            "Memcached",
            "memcacheds",
            "memcached.cache.example.com",
            "memcacheds.cache.example.com",
        ] {
            assert_eq!(find_kind(&snapshot, text).unwrap().0.kind, "Memcached", "{text}");
        }
        let error = |text: &str| find_kind(&snapshot, text).unwrap_err().to_string();
        assert_eq!(
            error("memcahed"),
            "the API server serves no kind \"memcahed\": did you mean memcached?"
        );
        assert!(error("memcacheds.cache.exmple.com").ends_with("did you mean memcacheds.cache.example.com?"));
        assert_eq!(error("zzzzzz"), "the API server serves no kind \"zzzzzz\"");
        assert_eq!(
            error("web"),
            "\"web\" may be any of Web.a.example.com, Web.b.example.com: write one of them"
        );
    }
}
