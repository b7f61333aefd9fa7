//! Edits the conditions of a status, by the conventions of `metav1.Condition`.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use chartwright_watches::text::cut;

/// The longest message that the API conventions allow, in bytes.
const MESSAGE_BYTES: usize = 32_768;
/// The longest reason.
const REASON_BYTES: usize = 1024;

/// One condition. Reading is lenient, since older or other operators may have written it: what is missing is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// The generation for which the condition was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status of the condition changed last.
    #[serde(default, serialize_with = "seconds", deserialize_with = "lenient")]
    pub last_transition_time: Timestamp,
    /// Reason, in CamelCase.
    #[serde(default, deserialize_with = "nothing_is_empty")]
    pub reason: String,
    /// Message, at most 32 KiB.
    #[serde(default, deserialize_with = "nothing_is_empty")]
    pub message: String,
}

/// The conditions of a status. An entry that is no condition does not hide the others.
pub fn of(status: &Value) -> Vec<Condition> {
    let items = status.get("conditions").and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(|item| Condition::deserialize(item).ok())
        .collect()
}

/// Sets a condition, in its place or at the end. `lastTransitionTime` moves only when the status changes.
///
/// A reason outside of `[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?`, which a CRD's schema would refuse, loses the characters
/// that don't fit; an empty one becomes `Unknown`. Messages are cut at [`MESSAGE_BYTES`].
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    observed_generation: i64,
    now: Timestamp,
) {
    let status = if status { "True" } else { "False" };
    set_to(conditions, kind, status, reason, message, observed_generation, now);
}

/// The same for a status that may be `Unknown`.
pub fn set_to(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    observed_generation: i64,
    now: Timestamp,
) {
    let mut new = Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        observed_generation: Some(observed_generation),
        last_transition_time: whole(now),
        reason: valid_reason(reason),
        message: cut(message, MESSAGE_BYTES),
    };
    match conditions.iter_mut().find(|condition| condition.kind == kind) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time;
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

/// The condition of that type.
pub fn get<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Reason and message of the condition `Stalled` in a status. `None`: it is not true.
pub fn stalled_text(status: &Value) -> Option<String> {
    let conditions = of(status);
    let stalled = get(&conditions, "Stalled").filter(|stalled| stalled.status == "True")?;
    Some(format!("{}: {}", stalled.reason, stalled.message))
}

/// The generation of the record in a status. A status names it as soon as something was done for it; `observedGeneration` follows when it
/// is decided.
pub fn recorded_generation(status: &Value) -> Option<i64> {
    let decided = get(&of(status), "Ready").and_then(|ready| ready.observed_generation);
    decided.max(status.get("observedGeneration").and_then(Value::as_i64))
}

fn valid_reason(reason: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    let fitting: String = reason.chars().filter(fits).take(REASON_BYTES).collect();
    let fitting = fitting
        .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
        .trim_end_matches([',', ':']);
    if fitting.is_empty() {
        "Unknown".to_owned()
    } else {
        fitting.to_owned()
    }
}

/// Without fractions of a second, as the times of a status are.
pub fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn seconds<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&whole(*time))
}

/// Null and unreadable times become the beginning of time.
fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or_default())
}

fn nothing_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

/// Items that a condition lists; a chart that goes wrong often goes wrong everywhere.
const LISTED: usize = 5;

/// The first few of a list, and how many more there are.
pub fn short_list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    list(LISTED, items)
}

/// The first `most` of a list, and how many more there are.
pub fn list<T: ToString>(most: usize, items: impl IntoIterator<Item = T>) -> String {
    let mut items = items.into_iter();
    let shown: Vec<String> = items.by_ref().take(most).map(|item| item.to_string()).collect();
    let text = shown.join("; ");
    match items.count() {
        0 => text,
        more => format!("{text}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use serde_json::json;

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(short_list(0..2), "0; 1");
        assert_eq!(short_list(0..8), "0; 1; 2; 3; 4; and 3 more");
    }

    #[test]
    fn what_is_no_condition_hides_no_other() {
        let status = json!({"conditions": [
            "x", {"type": 3}, {"type": "Ready", "status": "True", "observedGeneration": 4}, {"type": "Theirs", "status": true},
        ]});
        let found = of(&status);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            get(&found, "Ready").and_then(|ready| ready.observed_generation),
            Some(4)
        );
        for none in [json!({}), json!(null), json!({"conditions": {"type": "Ready"}})] {
            assert!(of(&none).is_empty());
        }
    }

    #[test]
    fn the_time_moves_with_the_status_only() {
        let mut list = Vec::new();
        type Row = (String, bool, String, String, i64, Timestamp, Value);
        for (kind, status, reason, message, generation, now, expected) in table::<Row>("status", "conditions") {
            set(&mut list, &kind, status, &reason, &message, generation, now);
            assert_eq!(json!(get(&list, &kind)), expected);
        }
        assert_eq!(list.len(), 2);
    }

    #[test]
    fn reads_what_others_wrote() {
        let list = of(&json!({"conditions": [
            {"type": "Deployed", "status": "True", "lastTransitionTime": null, "reason": null, "extra": 1},
            {"type": "Initialized", "status": "True", "lastTransitionTime": "yesterday"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T02:00:00+02:00", "reason": "A"},
        ]}));
        let midnight: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let times: Vec<Timestamp> = list.iter().map(|condition| condition.last_transition_time).collect();
        assert_eq!(times, [Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH, midnight]);
        assert_eq!(list[0].reason, "");
    }

    #[test]
    fn reasons_are_made_to_fit() {
        for (reason, expected) in [
            ("Succeeded", "Succeeded"),
            ("not a reason", "notareason"),
            ("", "Unknown"),
            ("1st", "st"),
            ("A:B,", "A:B"),
            ("größe", "gre"),
            ("...", "Unknown"),
        ] {
            assert_eq!(valid_reason(reason), expected, "{reason}");
        }
        assert_eq!(valid_reason(&"a".repeat(2000)).len(), 1024);
    }

    #[test]
    fn messages_are_cut_between_characters() {
        for (text, bytes, expected) in [
            ("abc", 3, "abc"),
            ("abcdef", 5, "ab..."),
            ("ééé", 5, "é..."),
            ("ééé", 4, "..."),
            ("abcd", 2, "ab"),
            ("", 0, ""),
        ] {
            assert_eq!(cut(text, bytes), expected, "{text} {bytes}");
        }
        let mut list = Vec::new();
        let long = "ü".repeat(20_000);
        set(&mut list, "Ready", true, "A", &long, 1, Timestamp::UNIX_EPOCH);
        let message = &list[0].message;
        assert!(
            message.len() > MESSAGE_BYTES - 2 && message.len() <= MESSAGE_BYTES,
            "{}",
            message.len()
        );
        assert!(message.ends_with("ü... (the first of 40000 bytes)"));
    }
}
