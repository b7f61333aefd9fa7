//! Runs the recorded cases of `tests/fixtures/sprig`: one-line templates with what Go's sprig v3.3.0 made of them.

use std::path::Path;

use serde_json::Value as Json;

use super::{Call, Drawn, Env, RandomSource, functions};
use crate::gostd::json;
use go_template::exec;
use go_template::func::{CallError, FuncMap, Meter};
use go_template::host::{Host, MissingKey};
use go_template::set::Set;
use go_template::value::Value;

/// A seed, and a fixed clock.
#[derive(Default)]
struct Fixed {
    meter: Meter,
    calls: u8,
}

impl Env for Fixed {
    fn once(
        &mut self,
        _call: &Call,
        _fits: impl Fn(&Drawn) -> bool,
        make: impl FnOnce(&mut RandomSource) -> Result<Drawn, CallError>,
    ) -> Result<Drawn, CallError> {
        self.calls = self.calls.wrapping_add(1);
        let clock = jiff::Timestamp::from_second(1_700_000_000).expect("in range");
        make(&mut RandomSource::seeded(clock, [self.calls; 32]))
    }

    fn burn(&mut self, _steps: u64) -> Result<(), CallError> {
        Ok(())
    }
}

impl Host for Fixed {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn missing_key(&self) -> MissingKey {
        MissingKey::Invalid
    }
}

fn table() -> FuncMap<Fixed> {
    let mut table = FuncMap::new();
    for func in functions::<Fixed>() {
        assert!(!table.contains_key(func.name), "{} is twice in the table", func.name);
        table.insert(func);
    }
    table
}

fn render(text: &str, data: &Value, table: &FuncMap<Fixed>) -> Result<Vec<u8>, String> {
    let mut set = Set::new("t");
    set.parse("t", text, table).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    match exec(&set, "t", data, table, &mut Fixed::default(), &mut out) {
        Ok(()) => Ok(out),
        Err(error) => Err(error.to_string()),
    }
}

fn render_text(text: &str) -> Result<String, String> {
    render(text, &Value::Nil, &table()).map(|out| String::from_utf8_lossy(&out).into_owned())
}

/// Runs a file of cases and returns how many there were.
fn check(file: &str) -> usize {
    let table = table();
    fixtures::check(&format!("sprig/{file}"), |case| {
        let template = case.text("t").expect("a case has a template");
        let data = match case.field("v") {
            Json::Null => Value::Nil,
            data => json::unmarshal(&Meter::default(), data.to_string().as_bytes()).expect("fixtures are JSON"),
        };
        render(template, &data, &table)
    })
}

macro_rules! recorded {
    ($($name:ident),*) => {
        $(#[test] fn $name() {
            assert!(check(concat!(stringify!($name), ".jsonl")) > 30);
        })*
    };
}

recorded!(
    strings, case, math, list, dict, logic, json_text, regexes, versions, paths, params, urls, secrets
);

/// The cases were recorded where the local zone is UTC, as in an operator's container.
#[test]
fn dates() {
    let here = jiff::tz::TimeZone::system()
        .to_offset_info(jiff::Timestamp::UNIX_EPOCH)
        .offset()
        .seconds();
    if here == 0 {
        assert!(check("dates.jsonl") > 30);
    }
}

#[test]
fn the_table_has_every_name_of_sprig() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sprig/names.txt");
    let names = std::fs::read_to_string(path).expect("the list of names exists");
    let table = table();
    let missing: Vec<_> = names.lines().filter(|name| !table.contains_key(name)).collect();
    assert!(missing.is_empty(), "not implemented: {missing:?}");
    assert_eq!(table.len(), names.lines().count());
}

#[test]
fn results_are_bounded() {
    for template in [
        r#"{{ repeat 99999999999 "x" }}"#,
        r#"{{ indent 99999999999 "x" }}"#,
        "{{ until 99999999999 }}",
        "{{ untilStep 0 99999999999 1 }}",
        "{{ seq 99999999999 }}",
        "{{ randAlphaNum 99999999999 }}",
        "{{ randBytes 99999999999 }}",
        r#"{{ repeat 5000000 "a" | replace "" "0123456789abcdef" }}"#,
        r#"{{ repeat 1500000 "a" | splitList "" }}"#,
        r#"{{ regexReplaceAll "a" (repeat 1000000 "a") (repeat 100 "b") }}"#,
        r#"{{ wrapWith 1 (repeat 1000 "-") (repeat 100000 "a") }}"#,
    ] {
        let error = render_text(template).expect_err(template);
        assert!(error.contains("over the limit of"), "{template}: {error}");
    }
}

/// Forty levels that each hold the one below twice: small in memory, with a million million paths.
#[test]
fn shared_parts_are_not_followed_for_ever() {
    for (call, text) in [
        ("deepCopy $d", "over the limit of"),
        ("mergeOverwrite $e $d", "over the limit of"),
    ] {
        let doubled = |name: &str| {
            format!(
                "{{{{ ${name} := dict \"x\" 1 }}}}{{{{ range until 40 }}}}\
                 {{{{ ${name} = dict \"a\" ${name} \"b\" ${name} }}}}{{{{ end }}}}"
            )
        };
        let template = format!("{}{}{{{{ {call} | typeOf }}}}", doubled("d"), doubled("e"));
        let error = render_text(&template).expect_err(call);
        assert!(error.contains(text), "{call}: {error}");
    }
    let many = r#"{{ $s := repeat 1000000 "x" }}{{ $l := list }}{{ range until 100 }}{{ $l = append $l $s }}{{ end -}}
        {{ join "" $l }}"#;
    let error = render_text(many).expect_err("100 MB");
    assert!(error.contains("over the limit of"), "{error}");
}

#[test]
fn values_that_contain_themselves_end_in_an_error() {
    for (call, text) in [
        ("deepCopy $d", "nested deeper"),
        ("mustToJson $d", "encountered a cycle"),
        ("merge $d (deepCopy (dict \"a\" 1)) $e", "nested deeper"),
    ] {
        let template = format!(
            "{{{{ $d := dict }}}}{{{{ $_ := set $d \"d\" $d }}}}{{{{ $e := dict }}}}{{{{ $_ := set $e \"d\" $e }}}}\
             {{{{ {call} | typeOf }}}}"
        );
        let error = render_text(&template).expect_err(call);
        assert!(error.contains(text), "{call}: {error}");
    }
}

#[test]
fn random_results_have_their_shape_and_follow_the_source() {
    for (template, pattern) in [
        ("{{ randAlphaNum 20 }}", "^[0-9A-Za-z]{20}$"),
        ("{{ randAlpha 20 }}", "^[A-Za-z]{20}$"),
        ("{{ randNumeric 20 }}", "^[0-9]{20}$"),
        ("{{ randAscii 20 }}", "^[ -~]{20}$"),
        (
            "{{ uuidv4 }}",
            "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
        ),
        ("{{ randInt 5 8 }}", "^[567]$"),
        (r#"{{ shuffle "abc" }}"#, "^[abc]{3}$"),
        (r#"{{ htpasswd "u" "p" }}"#, r"^u:\$2a\$10\$[./0-9A-Za-z]{53}$"),
    ] {
        let found = render_text(template).expect(template);
        assert!(
            regex::Regex::new(pattern).expect(pattern).is_match(&found),
            "{template}: {found}"
        );
        assert_eq!(
            found,
            render_text(template).expect(template),
            "{template} asks another source"
        );
    }
}

#[test]
fn certificates_chain_and_parse_back() {
    let template = r#"{{ $ca := genCA "ca" 10 -}}
        {{ $c := genSignedCert "a.b" (list "10.0.0.1" "::1") (list "a.b") 5 $ca -}}
        {{ $again := buildCustomCert (b64enc $ca.Cert) (b64enc $ca.Key) -}}
        {{ $d := genSignedCertWithKey "x" nil nil 1 $again (genPrivateKey "ecdsa") -}}
        {{ $e := genSelfSignedCertWithKey "y" nil nil 1 (genPrivateKey "ed25519") -}}
        {{ len (regexFindAll "BEGIN CERTIFICATE" (print $ca.Cert $c.Cert $d.Cert $e.Cert) -1) }} {{ "" -}}
        {{ $d.Key | trunc 30 }}"#;
    assert_eq!(render_text(template).as_deref(), Ok("4 -----BEGIN EC PRIVATE KEY-----"));
    let error =
        render_text(r#"{{ genSignedCert "x" nil nil 1 (buildCustomCert "eA==" "eA==") }}"#).expect_err("no PEM");
    assert!(
        error.ends_with("error calling buildCustomCert: unable to decode certificate"),
        "{error}"
    );
}
