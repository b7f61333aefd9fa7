//! Who wants what a release no longer renders to go: whoever edited its custom resource, or nobody.
//!
//! The digest of what a render depends on has two parts: the chart, the watch and the engine, and what the custom resource
//! asks for. The record keeps the digest with which the members were settled last: whatever is still there and no longer
//! rendered went missing since. Answers of lookups are no part of it.

use std::time::Duration;

/// So long a member that only the answer of a lookup took out of the render stays: who deletes a ConfigMap to make it
/// anew doesn't mean to lose what was made from it.
pub const HOLD: Duration = Duration::from_secs(30);

/// Stands where the digest of what was asked for stood, once somebody asked for something else. Although it may be
/// asked for again before all is settled, what that brought in between goes by intent.
const EDITED: &str = "edited";

/// What changed since the members were settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// What the custom resource asks for.
    pub asked: bool,
    /// Chart, watch, engine or capabilities.
    pub given: bool,
}

/// What is to be done about members that are no longer rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// They go.
    Wanted,
    /// Nobody asked for a release without members: they stay until that is allowed.
    Guarded,
    /// The answer of a lookup changed: they go after [`HOLD`], unless they come back.
    Awaited,
}

/// The digest of all that a render depends on but for lookups: of what it is given, and of what is asked for.
pub fn inputs(given: &str, asked: &str) -> String {
    format!("{given}.{asked}")
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
    let (given, asked) = settled.split_once('.')?;
    let (given_now, asked_now) = inputs.split_once('.')?;
    Some(Changed {
        asked: asked != asked_now,
        given: given != given_now,
    })
}

/// `empties`: nothing at all is rendered any more. `looks_up`: the render asks the cluster; `answers`: it is known that
/// the answers changed.
pub fn intent(changed: Option<Changed>, empties: bool, looks_up: bool, answers: bool) -> Intent {
    let only_asked = Changed {
        asked: true,
        given: false,
    };
    let nothing = Changed {
        asked: false,
        given: false,
    };
    match changed {
        _ if empties && changed != Some(only_asked) => Intent::Guarded,
        _ if answers => Intent::Awaited,
        Some(changed) if changed == nothing && looks_up => Intent::Awaited,
        _ => Intent::Wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_stays_one_until_all_is_settled() {
        let (first, second) = (inputs("g", "a"), inputs("g", "b"));
        let is = |settled: &str, inputs: &str| changed(settled, inputs).map(|changed| (changed.asked, changed.given));
        assert_eq!(is(&first, &first), Some((false, false)));
        assert_eq!(is(&first, &second), Some((true, false)));
        assert_eq!(is(&first, &inputs("h", "a")), Some((false, true)));
        assert_eq!(is(&first, &inputs("h", "b")), Some((true, true)));
        assert_eq!(noted(&first, &first), first);
        assert_eq!(noted(&first, &inputs("h", "a")), first, "the chart is no edit");
        // There and back again.
        let edited = noted(&noted(&first, &second), &first);
        assert_eq!(is(&edited, &first), Some((true, false)));
        // What an earlier version of this program kept, or nothing.
        for unknown in ["", "0123"] {
            assert_eq!(is(unknown, &first), None);
            assert_eq!(noted(unknown, &first), unknown);
        }
    }

    #[test]
    fn what_nobody_asked_for_is_guarded() {
        use Intent::{Awaited, Guarded, Wanted};
        let of = |asked, given| Some(Changed { asked, given });
        for (changed, empties, looks_up, answers, expected) in [
            // An edit is carried out, whatever it leaves.
            (of(true, false), false, false, false, Wanted),
            (of(true, false), true, false, false, Wanted),
            (of(true, false), true, true, false, Wanted),
            // A chart may drop a member, not all.
            (of(false, true), false, true, false, Wanted),
            (of(false, true), true, false, false, Guarded),
            (of(true, true), true, false, false, Guarded),
            // So may the answer of a lookup, and not at once.
            (of(false, false), false, true, true, Awaited),
            (of(false, false), false, true, false, Awaited),
            (of(false, false), true, true, true, Guarded),
            (of(true, false), false, true, true, Awaited),
            (of(true, false), true, true, true, Awaited),
            (of(false, true), false, true, true, Awaited),
            // Found without anything having changed: what a reconcile that was cut off left.
            (of(false, false), false, false, false, Wanted),
            (None, false, true, false, Wanted),
            (None, true, false, false, Guarded),
        ] {
            let case = format!("{changed:?} {empties} {looks_up} {answers}");
            assert_eq!(intent(changed, empties, looks_up, answers), expected, "{case}");
        }
    }
}
