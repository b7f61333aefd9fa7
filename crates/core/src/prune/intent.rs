//! Decides whether a spec edit requested the removal of members that are no longer rendered.
//!
//! The digest of a render's inputs has two parts: the chart, the watch and the engine; and the custom resource's spec. The
//! record keeps the digest of the last reconcile that completed. Members that are live but no longer rendered
//! disappeared after it. Answers of lookups are not part of the digest.

use std::time::Duration;

/// How long a member stays that only a changed lookup removed from the render: a user who deletes a ConfigMap to
/// recreate it does not want to lose the objects that depend on it.
pub const HOLD: Duration = Duration::from_secs(30);

/// Replaces the digest of the user's inputs after the user changed them. Even if the user reverts the change
/// before all is settled, members that the change added in between are removed by intent.
const EDITED: &str = "edited";

/// What changed since the members were settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub struct Changed {
    /// The inputs that the custom resource sets.
    pub requested: bool,
    /// Chart, watch, engine or capabilities.
    pub given: bool,
}

/// What is to be done about members that are no longer rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// They go.
    Wanted,
    /// The user did not request a release without members: they stay until that is allowed.
    Guarded,
    /// The answer of a lookup changed: they go after [`HOLD`], unless they come back.
    Awaited,
}

/// The digest of all that a render depends on but for lookups: of the operator's inputs (`given`) and of the user's (`requested`).
pub fn inputs(given: &str, requested: &str) -> String {
    format!("{given}.{requested}")
}

/// The digest to be kept as the settled one while another is carried out.
#[must_use]
pub fn noted(settled: &str, inputs: &str) -> String {
    match (settled.split_once('.'), inputs.split_once('.')) {
        (Some((given, before)), Some((_, now))) if before != now => format!("{given}.{EDITED}"),
        _ => settled.to_owned(),
    }
}

/// Compares the settled digest with that of a render; `None` if it isn't known.
pub fn changed(settled: &str, inputs: &str) -> Option<Changed> {
    let (given, requested) = settled.split_once('.')?;
    let (given_now, requested_now) = inputs.split_once('.')?;
    Some(Changed {
        requested: requested != requested_now,
        given: given != given_now,
    })
}

/// `empties`: nothing at all is rendered any more. `looks_up`: the render asks the cluster; `answers`: it is known that
/// the answers changed.
pub fn intent(changed: Option<Changed>, empties: bool, looks_up: bool, answers: bool) -> Intent {
    // An unknown change was not requested by the user.
    let (requested, given) = changed.map_or((false, true), |changed| (changed.requested, changed.given));
    if empties && (given || !requested) {
        Intent::Guarded
    } else if answers || looks_up && !requested && !given {
        Intent::Awaited
    } else {
        Intent::Wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn an_edit_stays_one_until_all_is_settled() {
        let (first, second) = (inputs("g", "a"), inputs("g", "b"));
        let is =
            |settled: &str, inputs: &str| changed(settled, inputs).map(|changed| (changed.requested, changed.given));
        assert_eq!(is(&first, &first), Some((false, false)));
        assert_eq!(is(&first, &second), Some((true, false)));
        assert_eq!(is(&first, &inputs("h", "a")), Some((false, true)));
        assert_eq!(is(&first, &inputs("h", "b")), Some((true, true)));
        assert_eq!(noted(&first, &first), first);
        assert_eq!(noted(&first, &inputs("h", "a")), first, "the chart is no edit");
        // There and back again.
        let edited = noted(&noted(&first, &second), &first);
        assert_eq!(is(&edited, &first), Some((true, false)));
        for unknown in ["", "0123"] {
            assert_eq!(is(unknown, &first), None);
            assert_eq!(noted(unknown, &first), unknown);
        }
    }

    #[test]
    fn unrequested_removals_are_guarded() {
        for (changed, empties, looks_up, answers, expected) in
            table::<(Option<Changed>, bool, bool, bool, String)>("intent", "intents")
        {
            let case = format!("{changed:?} {empties} {looks_up} {answers}");
            assert_eq!(
                format!("{:?}", intent(changed, empties, looks_up, answers)),
                expected,
                "{case}"
            );
        }
    }
}
