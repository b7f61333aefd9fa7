//! What each fuzz target does with its bytes; `fuzz/` runs these under libFuzzer, `cargo test` runs them over generated
//! input. They may do anything but panic, hang, or break a property that is asserted.

use std::sync::Arc;

use chartwright_core::annotations;
use chartwright_core::identity::applyset;
use chartwright_core::record::{Record, secret};
use chartwright_core::status as statuses;
use chartwright_core::status::conditions;
use chartwright_core::takeover::{StoredRelease, objects};
use chartwright_scaffold::fetch::{oci as registry, repository};
use chartwright_watches::cel::{CelData, Expression, VARIABLES};
use go_template::Set;
use go_template::meter::Meter;
use go_yaml as yaml;
use helm_template::chart::{Chart, File, Frozen, strvals, values};
use helm_template::gostd::regexp;
use helm_template::helm::table;
use helm_template::render::{Engine, Input, Limits, ReleaseObject};
use helm_template::sprig::semver;
use serde_json::{Map, Value, json};

/// A target's name and body.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// Every target. Each has a file of the same name in one of the folders of `fuzz/fuzz_targets`.
pub const ALL: &[FuzzTarget] = &[
    ("template", template),
    ("render", render),
    ("yaml_read", yaml_read),
    ("yaml_write", yaml_write),
    ("merge", merge),
    ("strvals", set),
    ("archive", archive),
    ("regexes", regexes),
    ("globs", globs),
    ("versions", versions),
    ("record", record),
    ("status", status),
    ("release", release),
    ("marks", marks),
    ("cron", cron),
    ("cel", cel),
    ("oci", oci),
    ("index", index),
];

/// The input in two parts, split at its first zero byte.
fn halves(data: &[u8]) -> (String, String) {
    let at = data.iter().position(|&b| b == 0).unwrap_or(data.len());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&data[..at]), text(data.get(at + 1..).unwrap_or_default()))
}

/// Go templates: lexer and parser. What parses once does so again.
pub fn template(data: &[u8]) {
    let parse = || {
        Set::new("gotpl")
            .parse("c/templates/t.yaml", data, table())
            .map_err(|e| e.to_string())
    };
    assert_eq!(parse(), parse());
}

fn named_chart() -> Chart {
    let mut chart = Chart::default();
    chart.metadata.name = "c".to_owned();
    chart.metadata.version = "0.1.0".to_owned();
    chart
}

/// A chart's file and its values through everything up to the sorted manifests, within small limits.
pub fn render(data: &[u8]) {
    let (file, values) = halves(data);
    let mut chart = named_chart();
    chart.templates = vec![File {
        name: "templates/t.yaml".to_owned(),
        data: file.as_bytes().into(),
    }];
    let values = values::read(values.as_bytes(), yaml::MAX_DEPTH).map_or(Value::Null, Value::Object);
    let input = Input {
        random: Some(Arc::new([7; 32])),
        limits: Limits {
            steps: 20_000,
            depth: 50,
            output: 1 << 20,
            ..Limits::default()
        },
        include_crds: true,
        ..Input::new(ReleaseObject::install("r", "n"), values)
    };
    let _ = Engine::new(chart).map(|renderer| renderer.render_with(&input));
}

/// YAML in: what can be read can be written, and reads back as the same value.
pub fn yaml_read(data: &[u8]) {
    let _ = yaml::parse(data);
    let _ = values::read(data, yaml::MAX_DEPTH);
    let _ = yaml::documents(&String::from_utf8_lossy(data));
    if let Ok(value) = yaml::to_json(data) {
        written_reads_back(yaml::all_floats(value));
    }
}

/// YAML out: any JSON value.
pub fn yaml_write(data: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        written_reads_back(yaml::all_floats(value));
    }
}

fn written_reads_back(value: Value) {
    let pretty = yaml::to_string_pretty(&value, yaml::MAX_DEPTH);
    assert!(
        pretty.is_ok() || yaml::to_string(&value, yaml::MAX_DEPTH).is_err(),
        "{value}"
    );
    let Ok(text) = yaml::to_string(&value, yaml::MAX_DEPTH) else {
        return;
    };
    // U+0085 is folded on its way through JSON, the text of a BOM is one too, and a key `<<` is written like a merge.
    let lossy = |c: char| matches!(c, '\u{85}' | '\u{feff}' | '<' | '\r' | '\u{2028}' | '\u{2029}');
    if value.to_string().contains(lossy) {
        return;
    }
    match yaml::to_json(text.as_bytes()) {
        Ok(read) => assert_eq!(yaml::all_floats(read), value, "{text:?}"),
        Err(error) => panic!("{error}: {text:?} of {value}"),
    }
}

/// Values over values: merging twice is merging once, and what is merged last wins.
pub fn merge(data: &[u8]) {
    let (below, above) = halves(data);
    let read = |text: &str| values::read(text.as_bytes(), yaml::MAX_DEPTH);
    let (Ok(defaults), Ok(above)) = (read(&below), read(&above)) else {
        return;
    };
    let defaults = Frozen::new(defaults);
    let mut once = defaults.to_json();
    values::merge_maps(&mut once, above.clone());
    let mut twice = once.clone();
    values::merge_maps(&mut twice, above.clone());
    assert_eq!(once, twice);
    for (key, value) in &above {
        assert!(once.contains_key(key) && (value.is_object() || once[key] == *value));
    }
    let mut chart = named_chart();
    chart.values = defaults;
    if let go_template::Value::Map(user) = go_template::Value::from_json(&Value::Object(above)) {
        let mut warnings = Vec::new();
        if let Ok(node) = helm_template::chart::dependencies::process(&chart, &user, &mut warnings) {
            let _ = values::coalesce(&node, &user, &mut warnings);
        }
    }
}

/// `--set` and its relatives, on values that are there already.
pub fn set(data: &[u8]) {
    let (text, values) = halves(data);
    let values = values::read(values.as_bytes(), yaml::MAX_DEPTH).unwrap_or_default();
    use strvals::Mode::{File, Json, Literal, Strings, Typed};
    let read = |path: &str| Ok::<_, String>(path.to_owned());
    for mode in [Typed, Strings, Json, Literal, File(&read)] {
        let mut target: Map<String, Value> = values.clone();
        let _ = strvals::parse_into(&text, &mode, &mut target);
    }
}

/// Chart archives: any bytes, any bytes as the inside of a gzip stream, and a chart of any files.
pub fn archive(data: &[u8]) {
    let _ = Chart::unpack(data);
    let _ = Chart::unpack(&gzip(data));
    let mut tar = tar::Builder::new(Vec::new());
    for part in data.split(|&b| b == 0xFF).take(20) {
        let (name, content) = halves(part);
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Names that the builder refuses are part of the first two.
        let _ = tar.append_data(&mut header, name, content.as_bytes());
    }
    let Ok(tar) = tar.into_inner() else { return };
    let _ = Chart::unpack(&gzip(&tar));
}

fn gzip(data: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let _ = encoder.write_all(data);
    encoder.finish().unwrap_or_default()
}

/// Go's regular expressions: a pattern and a text, in the functions that use them.
pub fn regexes(data: &[u8]) {
    let (pattern, text) = halves(data);
    if let Ok(regex) = regexp::compile(&Meter::default(), pattern.as_bytes()) {
        let _ = regex.is_match(text.as_bytes());
    }
    let source = "{{ regexFindAll .p .s -1 }}{{ regexReplaceAll .p .s \"$1x${a}\" }}{{ regexSplit .p .s -1 }}{{ regexMatch (regexQuoteMeta .s) .s }}";
    let data = json!({"p": pattern, "s": text});
    if let Ok(output) = helm_template::render::render_text("t", source, &data, Limits::default()) {
        assert!(output.ends_with("true"), "what is quoted matches itself: {text:?}");
    }
}

/// Globs of `.Files` and patterns of `.helmignore`.
pub fn globs(data: &[u8]) {
    let (pattern, name) = halves(data);
    let _ = helm_template::helm::Glob::new(&Meter::default(), &pattern).map(|glob| glob.matches(name.as_bytes()));
    let _ = helm_template::chart::ignore::path_match(&pattern, &name);
    if let Ok(rules) = helm_template::chart::ignore::Rules::parse(&pattern) {
        let _ = rules.ignores(&name, false);
        let _ = rules.ignores(&name, true);
    }
}

/// Versions and their constraints: an order is an order, and `=` means equal.
pub fn versions(data: &[u8]) {
    let (constraint, version) = halves(data);
    let constraints = semver::Constraints::parse(&constraint);
    let Ok(version) = semver::Version::parse(&version) else {
        return;
    };
    assert!(version.compare(&version).is_eq());
    if let Ok(constraints) = constraints {
        let _ = constraints.check(&version);
    }
    if let Ok(other) = semver::Version::parse(&constraint) {
        assert_eq!(version.compare(&other), other.compare(&version).reverse());
    }
}

/// A UID of a custom resource.
const UID: &str = "u";

/// The Secret of a record: any bytes, and any bytes packed. What is believed can be stored again, and reads back as the same.
pub fn record(data: &[u8]) {
    for stored in [data, &secret::pack(data)] {
        if let secret::FoundRecord::Record { record, generation, .. } = secret::FoundRecord::read(stored, UID) {
            is_stored_and_read_back(&record, generation);
        }
    }
}

fn is_stored_and_read_back(record: &Record, generation: i64) {
    let packed = secret::Packed::of(record, UID, generation);
    match secret::FoundRecord::read(&packed.bytes(), UID) {
        secret::FoundRecord::Record {
            record: read,
            generation: stored_for,
            ..
        } => {
            assert_eq!((*read, stored_for), (record.clone(), generation));
        }
        other => panic!("{record:?} was stored, and read back as {other:?}"),
    }
}

/// A status that any client wrote, in everything that reads one, and in what counts on with its numbers and times.
pub fn status(data: &[u8]) {
    let Ok(status) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let _ = conditions::of(&status);
    let _ = conditions::recorded_generation(&status);
    let _ = statuses::condition_events(&status);
    assert!(statuses::says_the_same(&statuses::ours(&status), &status));
    let stored = Record::from_status(&status, None);
    assert_eq!(stored, Record::from_status(&status, None));
    let mut record = stored.into_record();
    let json = serde_json::to_value(&record).unwrap_or_default();
    assert_eq!(serde_json::from_value::<Record>(json).ok().as_ref(), Some(&record));
    is_stored_and_read_back(&record, 1);

    let _ = record.is_complete();
    let next = record.history.next(record.revision);
    assert!(next >= record.revision, "{next} follows {}", record.revision);
    let _ = record.history.surplus(record.revision, None);
    record.history.deployed(next, 1, None, NOON);
    for run in &record.hooks.runs {
        let _ = (run.ttl_due(), run.time_left(std::time::Duration::from_secs(60), NOON));
    }
    let _ = record.hooks.name("pre-install");
    let plans = &mut record.plans;
    let _ = (plans.tick(NOON), plans.next(), plans.troubles());
    plans.request("backup", Some("{}"));
    if plans.start(NOON).is_some() {
        plans.take_back();
    }
    plans.start(NOON);
    plans.finish(Some("it failed"), NOON);
}

/// The time at which things happen.
const NOON: jiff::Timestamp = jiff::Timestamp::constant(1_767_355_200, 0);

/// What Helm stored of a release: any bytes, the manifest in them, and the same in the form of a Secret.
pub fn release(data: &[u8]) {
    const MOST: u64 = 1 << 20;
    let _ = StoredRelease::decode(data, MOST);
    let packed = data_encoding::BASE64.encode(&gzip(data));
    let text = String::from_utf8_lossy(data);
    let read = StoredRelease::decode(packed.as_bytes(), MOST).unwrap_or_else(|_| StoredRelease::of_manifest(&text));
    let _ = (read.has_objects(), read.is_deployed());
    let _ = objects(&read.manifest, MOST);
}

/// Labels, annotations and names of others: a tracking id and an annotation's list read back as they are written.
pub fn marks(data: &[u8]) {
    let (key, value) = halves(data);
    if let Some(id) = applyset::parse_tracking_id(&value) {
        let written = applyset::tracking_id(&id.owner_uid, &id.group_kind, &id.namespace, &id.name);
        assert_eq!(
            applyset::parse_tracking_id(&written),
            Some(id),
            "{value:?} is written as {written:?}"
        );
    }
    let list = applyset::parse_list(&value);
    let mut sorted = list.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(applyset::parse_list(&applyset::format_list(&list)), sorted);
    let known = [
        annotations::SUSPEND,
        annotations::RECONCILE_PERIOD,
        annotations::ROLLBACK_TO,
        key.as_str(),
    ];
    let all = known.map(|key| (key.to_owned(), value.clone())).into_iter().collect();
    let _ = (
        annotations::problems(&all),
        annotations::is_suspended(&all),
        annotations::reconcile_period(&all),
    );
    let _ = annotations::rollback_to(&value);
}

/// A schedule, a time zone and the time of its last run, as a status has them: what is due is not in the future, and what is next is not
/// in the past.
pub fn cron(data: &[u8]) {
    let (schedule, rest) = halves(data);
    let (zone, last) = halves(rest.as_bytes());
    let plan = json!({"name": "p", "schedule": schedule, "timeZone": zone, "scheduled": last});
    let without_time = json!({"name": "p", "schedule": schedule, "timeZone": zone});
    for plan in [plan, without_time] {
        let mut plans = Record::from_status(&json!({"plans": [plan]}), None).into_record().plans;
        let due = plans.tick(NOON);
        assert!(due.len() <= 1, "{due:?}");
        assert!(plans.next().is_none_or(|next| next > NOON), "{:?}", plans.next());
        assert_eq!(plans.tick(NOON), [], "what was due is due again");
    }
}

/// A condition in CEL over an object: it compiles to the same twice, and has one answer.
pub fn cel(data: &[u8]) {
    let (text, object) = halves(data);
    let Ok(expression) = Expression::compile_with(&text, &VARIABLES) else {
        return;
    };
    assert_eq!(
        Expression::compile(expression.text()).map(|again| again.text().to_owned()),
        Ok(expression.text().to_owned())
    );
    let object = values::read(object.as_bytes(), yaml::MAX_DEPTH).map_or(Value::Null, Value::Object);
    let this = CelData::from_json(&object);
    let pods = CelData::from_json(&json!([{"metadata": {"name": "a-0"}}, object]));
    let variables = [("self", &this), ("members", &this), ("pods", &pods)];
    assert_eq!(expression.evaluate(&variables), expression.evaluate(&variables));
}

/// References to charts in registries: what is one is written as it is read, and names no other host or path.
pub fn oci(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(reference) = registry::OciReference::parse(&text) {
        let written = reference.to_string();
        assert_eq!(
            registry::OciReference::parse(&written).ok(),
            Some(reference.clone()),
            "{written}"
        );
        let url = url::Url::parse(&format!(
            "https://{}/v2/{}/tags/list",
            reference.registry, reference.repository
        ));
        if let Ok(url) = url {
            assert!(url.username().is_empty() && url.password().is_none(), "{url}");
            assert_eq!(url.path(), format!("/v2/{}/tags/list", reference.repository));
        }
    }
}

/// The index of a chart repository: a chart's address never takes a password to another host.
pub fn index(data: &[u8]) {
    let (index, wanted) = halves(data);
    for name in ["web", "c"] {
        let Ok(entry) = repository::find(index.as_bytes(), name, &wanted) else {
            continue;
        };
        assert!(!entry.url.is_empty());
        let Ok(joined) = repository::join("https://me:secret@charts.example.com/stable?token=secret", &entry.url)
        else {
            continue;
        };
        let url = url::Url::parse(&joined).expect("an address");
        let is_at_home =
            url.host_str() == Some("charts.example.com") && url.scheme() == "https" && url.port().is_none();
        assert!(
            is_at_home || !joined.contains("secret") || entry.url.contains("secret"),
            "{joined}"
        );
    }
}
