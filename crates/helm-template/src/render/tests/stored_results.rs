//! Tests of stored random results.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use crate::render::tests::chart_of;
use crate::render::*;

const DAY: i64 = 86_400;

/// A chart of one template.
struct Subject(Engine);

impl Subject {
    fn new(template: &str) -> Self {
        Subject(Engine::new(chart_of(&[("t.yaml", &format!("{template}\n"))])).unwrap())
    }

    fn render(&self, input: &Input<'_>) -> Rendered {
        self.0.render_with(input).unwrap()
    }

    /// The first render, without stored results.
    fn first(&self) -> Rendered {
        self.render(&with(&Kept::new([1; 32]), 0))
    }
}

/// A render with these results, `seconds` after the first.
fn with(kept: &Kept, seconds: i64) -> Input<'_> {
    Input {
        clock: at(seconds),
        kept: Some(kept),
        ..Input::new(ReleaseObject::install("r", "n"), json!({}))
    }
}

fn seeded(kept: &Kept, seed: u8, seconds: i64) -> Input<'_> {
    Input {
        random: Some(Arc::new([seed; 32])),
        ..with(kept, seconds)
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn text(rendered: &Rendered) -> &str {
    &rendered.objects[0].text
}

/// A line's value.
fn line<'a>(rendered: &'a Rendered, key: &str) -> &'a str {
    let prefix = format!("{key}: ");
    text(rendered)
        .lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .unwrap()
}

/// All functions, a line each.
const ALL: &str = r#"alnum: {{ randAlphaNum 12 }}
alpha: {{ randAlpha 12 }}
ascii: {{ randAscii 12 | quote }}
numeric: {{ randNumeric 12 }}
bytes: {{ randBytes 12 }}
int: {{ randInt 0 1000000000 }}
shuffled: {{ shuffle "abcdefghijklmnopqrstuvwxyz" }}
uuid: {{ uuidv4 }}
ecdsa: {{ genPrivateKey "ecdsa" | sha1sum }}
ed: {{ genPrivateKey "ed25519" | sha1sum }}
{{- $ca := genCA "ca" 30 }}
{{- $leaf := genSignedCert "leaf" nil (list "a.b") 30 $ca }}
{{- $key := genPrivateKey "ecdsa" }}
ca: {{ $ca.Cert | sha1sum }} {{ $ca.Key | sha1sum }}
leaf: {{ $leaf.Cert | sha1sum }} {{ $leaf.Key | sha1sum }}
keyed: {{ (genCAWithKey "keyed" 30 $key).Cert | sha1sum }}
self: {{ (genSelfSignedCertWithKey "self" nil nil 30 $key).Cert | sha1sum }}
signed: {{ (genSignedCertWithKey "signed" nil nil 30 $ca $key).Cert | sha1sum }}
self2: {{ (genSelfSignedCert "self" (list "127.0.0.1") nil 30).Cert | sha1sum }}
htpasswd: {{ htpasswd "user" "password" }}
bcrypt: {{ bcrypt "password" }}
aes: {{ encryptAES "key" "text" }}
now: {{ now | date "2006-01-02T15:04:05" }}
date: {{ date "2006-01-02T15:04:05" nil }}
zone: {{ dateInZone "2006-01-02T15:04:05" nil "UTC" }}
html: {{ htmlDate nil }}
html2: {{ htmlDateInZone nil "UTC" }}
ago: {{ ago 1600000000 }}
round: {{ durationRound (toDate "2006-01-02" "2020-01-01") }}"#;

#[test]
fn kept_results_are_used_again_for_every_function() {
    let release = Subject::new(ALL);
    let first = release.first();
    assert_eq!(first.randomness.missed.len(), first.randomness.kept.len());
    assert_eq!(first.randomness.kept.len(), 27);
    assert!(first.randomness.renewed.is_empty());
    let stored = serde_json::to_vec(&first.randomness.kept).unwrap();
    let kept = Kept::read([1; 32], &stored).unwrap();
    let second = release.render(&seeded(&kept, 9, 9 * DAY));
    assert_eq!(text(&first), text(&second));
    assert_eq!(second.randomness.kept, first.randomness.kept);
    assert!(second.randomness.missed.is_empty() && second.randomness.renewed.is_empty());
    assert_eq!(second.warnings, Vec::new());
    let third = release.render(&with(&Kept::new([1; 32]), -500 * DAY));
    for (a, b) in text(&first).lines().zip(text(&third).lines()) {
        assert_ne!(a, b, "fresh results differ");
    }
    let other_secret = release.render(&with(&Kept::read([2; 32], &stored).unwrap(), 0));
    assert_eq!(other_secret.randomness.missed.len(), 27, "another secret finds nothing");
}

#[test]
fn without_a_table_nothing_is_kept() {
    let release = Subject::new("a: {{ randAlphaNum 12 }}{{ now | date \"05\" }}");
    let input = Input::new(ReleaseObject::install("r", "n"), json!({}));
    let (a, b) = (release.render(&input), release.render(&input));
    assert_ne!(text(&a), text(&b));
    assert!(a.randomness.kept.is_empty() && a.randomness.missed.is_empty());
}

#[test]
fn seeds_decide_what_is_new_and_nothing_else() {
    let kept = {
        let only = Subject::new("old: {{ randAlphaNum 12 }}");
        only.first().randomness.kept
    };
    let two = Subject::new("old: {{ randAlphaNum 12 }}\nnew: {{ randAlphaNum 13 }}\nuuid: {{ uuidv4 }}\nsame: 1");
    let (a, b) = (two.render(&seeded(&kept, 1, 0)), two.render(&seeded(&kept, 2, 0)));
    assert_eq!(text(&a), text(&two.render(&seeded(&kept, 1, 0))));
    for key in ["old", "same"] {
        assert_eq!(line(&a, key), line(&b, key));
    }
    for key in ["new", "uuid"] {
        assert_ne!(line(&a, key), line(&b, key));
    }
    assert_eq!(a.randomness.missed.len(), 2);
}

#[test]
fn what_is_no_longer_used_is_dropped_and_ordinals_count_within_equal_arguments() {
    let two = Subject::new("a: {{ randAlphaNum 12 }}\nb: {{ randAlphaNum 12 }}\nc: {{ randAlphaNum 5 }}");
    let first = two.first();
    let one = Subject::new("x: {{ randAlphaNum 7 }}\nc: {{ randAlphaNum 5 }}\na: {{ randAlphaNum 12 }}");
    let second = one.render(&with(&first.randomness.kept, 0));
    assert_eq!(
        (line(&first, "a"), line(&first, "c")),
        (line(&second, "a"), line(&second, "c"))
    );
    assert_eq!((second.randomness.kept.len(), second.randomness.missed.len()), (3, 1));
}

const CERTIFICATES: &str = "{{ $ca := genCA \"ca\" 30 }}{{ $leaf := genSignedCert \"leaf\" nil nil 300 $ca }}\
    {{ $sub := genSignedCert \"sub\" nil nil 300 $ca }}ca: {{ $ca.Cert | sha1sum }}\n\
    leaf: {{ $leaf.Cert | sha1sum }}\nsub: {{ $sub.Cert | sha1sum }}\nother: {{ (genCA \"other\" 90).Cert | sha1sum }}\n\
    password: {{ randAlpha 9 }}";

#[test]
fn certificates_are_renewed_at_two_thirds_of_their_life_with_what_they_signed() {
    let release = Subject::new(CERTIFICATES);
    let first = release.first();
    assert_eq!(first.randomness.next_renewal, Some(at(20 * DAY)));
    let kept = &first.randomness.kept;
    let before = release.render(&with(kept, 20 * DAY - 1));
    assert_eq!(text(&first), text(&before));
    assert_eq!(before.randomness.next_renewal, Some(at(20 * DAY)));
    let after = release.render(&with(kept, 20 * DAY));
    for key in ["ca", "leaf", "sub"] {
        assert_ne!(line(&first, key), line(&after, key), "{key}");
    }
    for key in ["other", "password"] {
        assert_eq!(line(&first, key), line(&after, key), "{key}");
    }
    assert!(after.randomness.missed.is_empty());
    assert_eq!(after.randomness.renewed.len(), 3);
    assert_eq!(after.randomness.kept.len(), 5, "what was replaced is dropped");
    assert_eq!(after.randomness.next_renewal, Some(at(40 * DAY)));
    let again = release.render(&with(&after.randomness.kept, 20 * DAY));
    assert_eq!(text(&after), text(&again));
    let leaf_only = release.render(&with(&again.randomness.kept, 60 * DAY));
    assert_ne!(line(&again, "other"), line(&leaf_only, "other"));
}

#[test]
fn a_certificate_that_never_lives_is_not_renewed() {
    let release = Subject::new("a: {{ (genCA \"ca\" 0).Cert | sha1sum }}{{ (genCA \"ca\" -5).Cert | sha1sum }}");
    let first = release.first();
    let second = release.render(&with(&first.randomness.kept, DAY));
    assert_eq!(text(&first), text(&second));
    assert_eq!(second.randomness.next_renewal, None);
}

/// The stored form with one function's result changed.
fn tampered(kept: &Kept, function: &str, result: &serde_json::Value) -> Kept {
    let mut json = serde_json::to_value(kept).unwrap();
    for entry in json["results"].as_array_mut().unwrap() {
        if entry["function"] == function {
            entry["result"] = result.clone();
        }
    }
    Kept::read([1; 32], json.to_string().as_bytes()).unwrap()
}

#[test]
fn results_of_another_shape_are_missed_and_give_a_warning() {
    let template = "a: {{ randAlphaNum 4 }}{{ randAlpha 4 }}{{ randNumeric 4 }}{{ randAscii 4 | b64enc }}{{ randBytes 3 }}\
        {{ randInt 5 8 }}{{ shuffle \"aab\" }}{{ uuidv4 }}{{ genPrivateKey \"ed25519\" | sha1sum }}{{ bcrypt \"p\" }}\
        {{ htpasswd \"u\" \"p\" }}{{ encryptAES \"p\" \"t\" }}{{ now | unixEpoch }}";
    let release = Subject::new(template);
    let first = release.first();
    let texts = |texts: &[&str]| texts.iter().map(|text| json!({ "text": text })).collect::<Vec<_>>();
    let ecdsa = {
        let keys = Subject::new("k: {{ genPrivateKey \"ecdsa\" | toJson }}");
        let rendered = keys.first();
        serde_json::from_str::<String>(line(&rendered, "k")).unwrap()
    };
    let ed = first
        .randomness
        .kept
        .secrets()
        .find(|text| text.contains("BEGIN PRIVATE KEY"))
        .unwrap();
    let hash = "$2a$10$1234567890123456789012345678901234567890123456789012";
    let table = BTreeMap::from([
        ("randAlphaNum", texts(&["abc", "abcde", "ab-d", "", "a: b", "äb"])),
        ("randAlpha", texts(&["abc1", "abc"])),
        ("randNumeric", texts(&["123a", "12345"])),
        ("randAscii", texts(&["ab\nc", "ab"])),
        ("randBytes", texts(&["YWI=", "YWJj\n", "a: b"])),
        (
            "randInt",
            vec![json!({"int": 4}), json!({"int": 8}), json!({"text": "6"})],
        ),
        ("shuffle", texts(&["abb", "aabb"])),
        (
            "uuidv4",
            texts(&[
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                "x",
                "{6ba7b810-9dad-41d1-80b4-00c04fd430c8}",
            ]),
        ),
        ("genPrivateKey", texts(&[&ecdsa, &format!("{ed}a: b"), "a: b"])),
        ("bcrypt", texts(&[hash, "$2a$10$", &format!("{hash}\n2")])),
        ("htpasswd", texts(&["u:x", &format!("{hash}: ")])),
        (
            "encryptAES",
            texts(&["", "YWJj", "YWJjYWJjYWJjYWJjYWJjYWJjYWJjYWJjYWJjYWJjYWI="]),
        ),
        ("now", vec![json!({"int": 1})]),
    ]);
    for (function, results) in table {
        for result in results {
            let kept = tampered(&first.randomness.kept, function, &result);
            let rendered = release.render(&with(&kept, 0));
            let missed: Vec<_> = rendered
                .randomness
                .missed
                .iter()
                .map(|key| key.function.as_str())
                .collect();
            assert_eq!(missed, [function], "{result}");
            assert_eq!(rendered.warnings.len(), 1, "{function} {result}");
            let warning = rendered.warnings[0].to_string();
            assert!(warning.contains(function) && !warning.contains("a: b"));
        }
    }
}

#[test]
fn results_that_cannot_be_read_give_a_warning() {
    let release = Subject::new("a: {{ randAlpha 4 }}");
    let kept = Kept::read([1; 32], br#"{"version": 1, "results": [1, 2]}"#).unwrap();
    let rendered = release.render(&with(&kept, 0));
    assert_eq!(
        rendered.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["2 stored random results can't be read: they are generated again"]
    );
}

#[test]
fn a_probe_differs_in_what_was_missed_and_not_in_what_was_renewed() {
    let old = Subject::new(CERTIFICATES).first();
    let more = Subject::new(&format!(
        "{CERTIFICATES}\nnew: {{{{ uuidv4 }}}}\nyear: {{{{ now | date \"2006\" }}}}\nmonth: {{{{ date \"Jan\" nil }}}}"
    ));
    let kept = &old.randomness.kept;
    for input in [with(kept, 20 * DAY), seeded(kept, 3, 20 * DAY)] {
        let rendered = more.render(&input);
        let probe = more.0.probe(&input, &rendered).unwrap().unwrap();
        assert_eq!(
            (rendered.randomness.missed.len(), rendered.randomness.renewed.len()),
            (3, 3)
        );
        for key in ["ca", "leaf", "sub", "other", "password"] {
            assert_eq!(line(&rendered, key), line(&probe, key), "{key}");
        }
        for key in ["new", "year", "month"] {
            assert_ne!(line(&rendered, key), line(&probe, key), "{key}");
        }
    }
    let (same, input) = (Subject::new(CERTIFICATES), with(kept, 0));
    assert!(same.0.probe(&input, &same.render(&input)).unwrap().is_none());
}

#[test]
fn results_and_what_they_cost_are_bounded() {
    let limit = "the random results of one render are over the limit of";
    for (template, steps, want) in [
        (
            "a: {{ range until 100000 }}{{ randAlpha 1 }}{{ end }}",
            200_000_000,
            limit,
        ),
        (
            "a: {{ range until 1000 }}{{ bcrypt \"x\" }}{{ end }}",
            600_000,
            "the limit of 600000 steps",
        ),
    ] {
        let kept = Kept::new([1; 32]);
        let mut input = with(&kept, 0);
        input.limits.steps = steps;
        let error = Subject::new(template).0.render_with(&input).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}
