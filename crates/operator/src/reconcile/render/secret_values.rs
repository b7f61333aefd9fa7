//! The secret values of a release: data of Secrets that it renders or looks up, and its stored random results. They are
//! learned before a message could quote them. Texts in the chart's own files are not secret.

use std::cell::{Cell, OnceCell};

use data_encoding::BASE64;
use memchr::memmem::Finder;
use serde_json::{Map, Value};

use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::values::sources::ValuesSource;
use crate::telemetry::redact::Secrets;
use chartwright_core::identity::GroupKind;
use chartwright_core::values::recovery::Pin;
use go_template::{Value as Template, format};
use helm_template::chart::Chart;
use helm_template::render::{Kept, Manifest, Rendered};

/// Bytes of a chart that are searched for the values of one render: a chart has a megabyte, a hostile Secret any number
/// of lines. What isn't looked for counts as a secret.
const MOST_SEARCHED: usize = 256 << 20;
/// Longer values are no words of anybody's.
const LONGEST_KNOWN: usize = 256;
/// The fields of a Secret that name it, and hold nothing.
const HEAD: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];

/// The text of a chart. A value in it is no secret.
pub(crate) struct ChartText<'c> {
    chart: Option<&'c Chart>,
    values: OnceCell<Vec<u8>>,
    left: Cell<usize>,
}

impl<'c> ChartText<'c> {
    pub(crate) fn of(chart: Option<&'c Chart>) -> Self {
        ChartText {
            chart,
            values: OnceCell::new(),
            left: Cell::new(MOST_SEARCHED),
        }
    }

    /// True if a value stands in the chart's files, or in their names, as words of their own.
    fn has(&self, value: &str) -> bool {
        let Some(chart) = self.chart.filter(|_| value.len() <= LONGEST_KNOWN) else {
            return false;
        };
        let finder = Finder::new(value);
        let values = self
            .values
            .get_or_init(|| Value::from(chart.values.to_json()).to_string().into_bytes());
        self.finds(&finder, values) || self.stands_in(&finder, chart)
    }

    fn stands_in(&self, finder: &Finder<'_>, chart: &Chart) -> bool {
        let mut files = chart.templates.iter().chain(&chart.files);
        self.finds(finder, chart.metadata.name.as_bytes())
            || files.any(|file| self.finds(finder, file.name.as_bytes()) || self.finds(finder, file.data.as_bytes()))
            || chart
                .dependencies
                .iter()
                .any(|dependency| self.stands_in(finder, dependency))
    }

    fn finds(&self, finder: &Finder<'_>, text: &[u8]) -> bool {
        let Some(left) = self.left.get().checked_sub(text.len()) else {
            return false;
        };
        self.left.set(left);
        let goes_on = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii())
        };
        finder.find_iter(text).any(|at| {
            let before = at.checked_sub(1).and_then(|before| text.get(before));
            !goes_on(before) && !goes_on(text.get(at + finder.needle().len()))
        })
    }
}

/// Learns the data of a Secret, or of each Secret in a list: every scalar at any place, because the API server quotes
/// what it refuses. Ignores other kinds.
pub(crate) fn learn_object(secrets: &Secrets, chart: &ChartText<'_>, object: &Value) {
    for item in object.get("items").and_then(Value::as_array).into_iter().flatten() {
        learn_object(secrets, chart, item);
    }
    if GroupKind::of(object).is_none_or(|(group_kind, _)| group_kind != GroupKind::new("", "Secret")) {
        return;
    }
    let fields = object.as_object().into_iter().flatten();
    for (_, value) in fields.filter(|(field, _)| !HEAD.contains(&field.as_str())) {
        scalars(value, &mut |text| match decoded(text) {
            Some(value) => {
                learn_value(secrets, chart, &value);
                // Plain text in the place of base64 may look like base64.
                learn_value(secrets, chart, text);
            }
            None => learn_value(secrets, chart, text),
        });
    }
}

/// Learns the values of live Secrets for a preview. A value in the chart's own text is no secret.
pub fn learn_secrets<'o>(secrets: &Secrets, chart: Option<&Chart>, objects: impl IntoIterator<Item = &'o Value>) {
    let chart = ChartText::of(chart);
    objects
        .into_iter()
        .for_each(|object| learn_object(secrets, &chart, object));
}

/// Learns the texts of a source of values and the scalars in them, if the source is a Secret. `room`: how many bytes
/// may be read, as for [`ValuesSource::add`].
pub(crate) fn learn_source(
    secrets: &Secrets,
    chart: &ChartText<'_>,
    source: &ValuesSource,
    object: &Value,
    room: &mut usize,
) {
    learn_object(secrets, chart, object);
    let mut values = Map::new();
    if source.is_secret() && source.add(object, &mut values, room).is_ok() {
        scalars(&Value::Object(values), &mut |text| learn_value(secrets, chart, text));
    }
}

fn learn_value(secrets: &Secrets, chart: &ChartText<'_>, value: &str) {
    secrets.learn_unless(value, &|text| chart.has(text));
}

/// Calls `found` with each scalar of a value, as JSON and as Go prints it.
fn scalars(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => found(text),
        Value::Number(number) => {
            found(&number.to_string());
            if let Some(float) = number.as_f64() {
                found(&go_float(float));
                found(&format!("{float}"));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| scalars(item, found)),
        Value::Object(fields) => fields.values().for_each(|value| scalars(value, found)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// A number as Go's `%v` prints a float: `7.39152846e+09`.
fn go_float(number: f64) -> String {
    format::text(&Template::Float64(number))
}

/// Decodes base64 if the result is text. The API server skips line breaks.
fn decoded(text: &str) -> Option<String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    String::from_utf8(BASE64.decode(&digits).ok()?).ok()
}

pub(crate) fn learn_kept(secrets: &Secrets, kept: &Kept, pins: &[Pin]) {
    kept.secrets().for_each(|text| secrets.learn(text));
    pins.iter()
        .filter_map(|pin| pin.value.as_str())
        .for_each(|text| secrets.learn(text));
}

/// Learns the secret values of a render.
pub(crate) fn learn_render(secrets: &Secrets, chart: &ChartText<'_>, rendered: &Rendered) {
    let learn = |manifest: &Manifest| {
        for object in manifest.objects() {
            learn_object(secrets, chart, object);
        }
    };
    rendered.objects.iter().for_each(learn);
    rendered.hooks.iter().for_each(|hook| learn(&hook.manifest));
    learn_kept(secrets, &rendered.randomness.kept, &[]);
}

/// The names of a custom resource, which a Secret often repeats.
pub(crate) fn publish_names(secrets: &Secrets, resource: &CustomResource, group_kind: &GroupKind) {
    let key = &resource.key;
    for name in [&key.name, &key.namespace, &group_kind.kind, &group_kind.group] {
        secrets.publish(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::telemetry::redact::MARK;
    use helm_template::chart::File;

    #[test]
    fn every_scalar_of_a_secret_counts_in_all_its_forms() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a-public-name"}, "type": "kubernetes.io/tls",
            "data": {
                "a": BASE64.encode(b"first-value"), "broken": "no base64!", "bytes": BASE64.encode(&[0xff; 9]), "n": null,
                "number": 88_776_655, "lines": "aGVs\nbG8tbGluZXM=",
            },
            "stringData": {"pw": 7_391_528_460_u64, "deep": {"list": [["nested-value-1", 4711471147.5]]}},
            "stringdata": {"typo": "typo-value-9"},
        });
        let secrets = Secrets::default();
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "third-value"}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [secret, config]});
        learn_object(&secrets, &ChartText::of(None), &list);
        for text in [
            "first-value",
            "no base64!",
            "////////////",
            "hello-lines",
            "7391528460",
            "7.39152846e+09",
            "nested-value-1",
            "4711471147.5",
            "4.7114711475e+09",
            "88776655",
            "8.8776655e+07",
            "typo-value-9",
        ] {
            assert_eq!(secrets.redact(text), MARK, "{text}");
        }
        for text in ["third-value", "a-public-name", "kubernetes.io/tls"] {
            assert_eq!(secrets.redact(text), text);
        }
    }

    #[test]
    fn what_stands_in_the_chart_is_no_secret() {
        let mut chart = Chart::default();
        chart.templates.push(File {
            name: "templates/image-puller/job.yaml".into(),
            data: "user: {{ .Values.user }} # elastic, by default\nendpoint: http://db-{{ .Release.Name }}".into(),
        });
        let value = |text: &str| BASE64.encode(text.as_bytes());
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "data": {"a": value("elastic"), "b": value("image-puller"), "c": value("endpoint: http"), "d": value("default-1"), "e": value("lastic, by defau")},
        });
        let secrets = Secrets::default();
        learn_object(&secrets, &ChartText::of(Some(&chart)), &secret);
        for text in ["elastic", "image-puller", "endpoint: http"] {
            assert_eq!(secrets.redact(text), text);
        }
        for text in ["default-1", "lastic, by defau"] {
            assert_eq!(secrets.redact(text), MARK, "{text}");
        }
    }
}
