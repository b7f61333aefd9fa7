//! Charts and values that want more than a render may take: each ends with an error that names limit and line.

use std::time::Duration;

use super::tests::render_with;
use super::*;

/// A template, and what its error has to say. Where that is empty it only has to end: it may fit into a limit, or Helm
/// may have an error of its own.
const HOSTILE: &[(&str, &str)] = &[
    // Loops and recursion.
    (
        "{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}",
        "limit of",
    ),
    ("{{ range $i := 9000000000000000000 }}{{ end }}", "limit of"),
    ("{{ until 1000000000 }}", "limit of"),
    ("{{ seq 1 1000000000 }}", "limit of"),
    (
        "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        "nested reference name: a",
    ),
    (
        "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
        "limit of",
    ),
    ("{{ $t := \"{{ tpl .t . }}\" }}{{ tpl $t (dict \"t\" $t) }}", "limit of"),
    (
        "{{ $t := \"{{ tpl .t . }}{{ tpl .t . }}\" }}{{ tpl $t (dict \"t\" $t) }}",
        "limit of",
    ),
    (
        "{{ define \"b\" }}{{ if . }}{{ include \"b\" (sub . 1) }}{{ include \"b\" (sub . 1) }}{{ end }}{{ end }}\
      {{ include \"b\" (int64 60) }}",
        // The same from the same is made once.
        "",
    ),
    (
        "{{ define \"b\" }}{{ if lt . 1000000000000000000 }}{{ include \"b\" (mul . 2) }}{{ include \"b\" (mul . 2 | add1) }}\
      {{ end }}{{ end }}{{ include \"b\" (int64 1) }}",
        "limit of",
    ),
    // Texts.
    ("{{ repeat 1000000000 \"a\" }}", "limit of"),
    (
        "{{ $s := \"0123456789abcdef\" }}{{ range until 40 }}{{ $s = printf \"%s%s\" $s $s }}{{ end }}",
        "limit of",
    ),
    (
        "{{ $s := \"0123456789abcdef\" }}{{ range until 40 }}{{ $s = cat $s $s }}{{ end }}",
        "limit of",
    ),
    (
        "{{ $s := repeat 1000000 \"ab\" }}{{ range until 100 }}{{ $s = replace \"a\" $s $s }}{{ end }}",
        "limit of",
    ),
    (
        "{{ $s := repeat 60000000 \"a\" }}{{ range until 100 }}{{ $x := upper $s }}{{ end }}",
        "limit of",
    ),
    (
        "{{ $s := repeat 60000000 \"a\" }}{{ range until 100 }}{{ $s }}{{ end }}",
        "limit of",
    ),
    ("{{ printf \"%1000000000d\" 1 }}", ""),
    ("{{ printf \"%*d\" 1000001 1 }}", ""),
    ("{{ $f := repeat 1000 \"%999999d\" }}{{ printf $f }}", ""),
    ("{{ $f := repeat 1000 \"%[1]999999d\" }}{{ printf $f 1 }}", ""),
    ("{{ indent 1000000000 \"a\" }}", "limit of"),
    ("{{ $s := repeat 1000000 \"\\n\" }}{{ indent 1000 $s }}", "limit of"),
    ("{{ $s := repeat 8000000 \"{{.}}\" }}{{ tpl $s . }}", "limit of"),
    ("{{ $s := repeat 100000 \"{{ if true }}\" }}{{ tpl $s . }}", ""),
    // Values that share parts, hold themselves, nest deeply.
    ("{{ $_ := set . \"x\" . }}{{ . }}", "limit of"),
    ("{{ $_ := set . \"x\" . }}{{ print . }}", "limit of"),
    ("{{ $_ := set . \"x\" . }}{{ printf \"%v\" . }}", "limit of"),
    ("{{ $_ := set . \"x\" . }}{{ quote . | len }}", "limit of"),
    ("{{ $_ := set . \"x\" . }}{{ toString . | len }}", "limit of"),
    (
        "{{ $_ := set . \"x\" . }}{{ toYaml . }}{{ toJson . }}{{ toToml . | len }}",
        "",
    ),
    (
        "{{ $_ := set . \"x\" . }}{{ toYaml . }}{{ toJson . }}{{ toPrettyJson . }}",
        "",
    ),
    ("{{ $_ := set . \"x\" . }}{{ mustToJson . }}", "encountered a cycle via"),
    ("{{ $_ := set . \"x\" . }}{{ deepCopy . }}", "limit of"),
    (
        "{{ $_ := set . \"x\" . }}{{ $d := dict }}{{ $_ := set $d \"x\" $d }}{{ merge $d . | len }}",
        "",
    ),
    ("{{ $_ := set . \"x\" . }}{{ eq . . }}", ""),
    (
        "{{ $a := dict }}{{ $_ := set $a \"x\" $a }}{{ $b := dict }}{{ $_ := set $b \"x\" $b }}{{ deepEqual $a $b }}",
        "limit of",
    ),
    (
        "{{ $a := list 1 }}{{ $b := list 1 }}{{ range until 60 }}{{ $a = list $a $a }}{{ $b = list $b $b }}{{ end }}\
      {{ deepEqual $a $b }}",
        "limit of",
    ),
    (
        "{{ $a := list 1 }}{{ range until 60 }}{{ $a = list $a $a }}{{ end }}{{ $a }}",
        "limit of",
    ),
    (
        "{{ $a := list 1 }}{{ range until 60 }}{{ $a = list $a $a }}{{ end }}{{ toYaml $a }}",
        "limit of",
    ),
    (
        "{{ $a := list 1 }}{{ range until 60 }}{{ $a = list $a $a }}{{ end }}{{ toJson $a }}",
        "limit of",
    ),
    (
        "{{ $a := list 1 }}{{ range until 60 }}{{ $a = list $a $a }}{{ end }}{{ uniq (list $a $a) | len }}",
        "",
    ),
    (
        "{{ $a := list 1 }}{{ range until 60 }}{{ $a = list $a $a }}{{ end }}{{ deepCopy $a | len }}",
        "limit of",
    ),
    (
        "{{ $a := list 1 }}{{ range until 60 }}{{ $a = list $a $a }}{{ end }}{{ toToml (dict \"a\" $a) | len }}",
        "limit of",
    ),
    (
        "{{ $a := dict \"k\" 1 }}{{ range until 60 }}{{ $a = dict \"l\" $a \"r\" $a }}{{ end }}{{ merge (dict) $a | len }}",
        "",
    ),
    (
        "{{ $a := list }}{{ range until 100000 }}{{ $a = list $a }}{{ end }}{{ len $a }}",
        "",
    ),
    (
        "{{ $a := list }}{{ range until 100000 }}{{ $a = list $a }}{{ end }}{{ $a }}",
        "limit of",
    ),
    (
        "{{ $a := dict }}{{ range until 100000 }}{{ $a = dict \"a\" $a }}{{ end }}{{ toYaml $a }}",
        "",
    ),
    (
        "{{ $a := list }}{{ range until 1000000 }}{{ $a = append $a . }}{{ end }}",
        "limit of",
    ),
    // Parsers.
    (
        "{{ $s := repeat 1000000 \"[\" }}{{ fromYaml $s | len }}{{ fromJson $s | len }}{{ fromToml $s | len }}",
        "",
    ),
    (
        "{{ $s := repeat 10000000 \"[],\" }}{{ $s = printf \"[%s]\" $s }}{{ fromJsonArray $s | len }}",
        "limit of",
    ),
    (
        "{{ $s := \"a: &a [x,x,x,x,x,x,x,x,x]\\n\" }}{{ range $i, $c := splitList \"\" \"bcdefghij\" }}\
      {{ $p := index (splitList \"\" \"abcdefghij\") $i }}{{ $s = printf \"%s%s: &%s [%s]\\n\" $s $c $c (repeat 9 (printf \"*%s,\" $p)) }}\
      {{ end }}{{ fromYaml $s | toString | len }}",
        "",
    ),
    // Regular expressions.
    (
        "{{ regexMatch \"(((((a{1,30}){1,30}){1,30}){1,30}){1,30})\" \"a\" }}",
        "",
    ),
    (
        "{{ $s := repeat 10000000 \"ab\" }}{{ regexFindAll \"(a|b|ab)*c\" $s -1 | len }}",
        "",
    ),
    (
        "{{ $s := repeat 10000000 \"a\" }}{{ regexMatch \"(a?){900}(a){900}\" $s }}",
        "limit of",
    ),
    (
        "{{ $s := repeat 100000 \"A\" }}{{ regexReplaceAll \".*[^A-Z]|[A-Z]\" $s \"x\" | len }}",
        "",
    ),
    // Slow functions.
    ("{{ range until 10000 }}{{ $x := bcrypt \"a\" }}{{ end }}", "limit of"),
    (
        "{{ range until 10000 }}{{ $x := genPrivateKey \"rsa\" }}{{ end }}",
        "limit of",
    ),
    (
        "{{ range until 10000 }}{{ $x := derivePassword 1 \"long\" \"p\" \"u\" \"s\" }}{{ end }}",
        "limit of",
    ),
];

#[test]
fn nothing_takes_more_than_it_may() {
    // Small enough that a test of a debug build ends soon; each is proportionate to the default.
    let limits = Limits {
        steps: 400_000,
        memory: 30 << 20,
        time: Duration::from_secs(60),
        ..Limits::default()
    };
    let mut wrong = Vec::new();
    for (template, want) in HOSTILE {
        let started = std::time::Instant::now();
        let result = render_with(template, |input| input.limits = limits);
        let text = match result {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        let took = started.elapsed();
        let named = !text.contains(" limit of ") || text.contains("c/templates/t.yaml:1") || text.contains("gotpl:1");
        if !text.contains(want) || !named || took > Duration::from_secs(300) {
            let text: String = text.chars().take(400).collect();
            wrong.push(format!("{template}\n  want {want:?}\n  got  {text:?} in {took:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn to_find_primes_takes_steps_and_no_time() {
    // One key takes some hundred milliseconds; a look at the clock follows each.
    let time = Duration::from_millis(50);
    let keys = |count: usize, steps: u64| {
        let template = format!("{{{{ range until {count} }}}}{{{{ $x := genPrivateKey \"rsa\" }}}}{{{{ end }}}}");
        render_with(&template, |input| {
            input.limits = Limits {
                time,
                steps,
                ..Limits::default()
            };
        })
    };
    keys(2, 5_000_000).expect("the time for the keys isn't counted");
    let text = keys(3, 5_000_000)
        .expect_err("three keys take six million steps")
        .to_string();
    assert!(text.contains("the limit of 5000000 steps"), "{text}");
}

#[test]
fn a_large_chart_stays_far_below_every_limit() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/charts/webstack");
    let renderer = Engine::new(Chart::load(&path).unwrap()).unwrap();
    let limits = Limits::default();
    let rendered = renderer.render(&Release::install("r", "n"), serde_json::Value::Null);
    let used = rendered.unwrap().used;
    // More than nothing, so that the measure itself is checked.
    assert!(
        used.steps > 1_000 && used.depth > 3 && used.output > 10_000 && used.memory > 10_000,
        "{used:?}"
    );
    assert!(used.steps * 20 <= limits.steps, "{used:?}");
    assert!(used.depth * 20 <= limits.depth, "{used:?}");
    assert!(used.output * 20 <= limits.output, "{used:?}");
    assert!(used.memory * 20 <= limits.memory, "{used:?}");
    assert!(used.time * 20 <= limits.time, "{used:?}");
}
