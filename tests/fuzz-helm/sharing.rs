//! Random templates that change what several variables hold: what shares a map or a list, and what is a copy.

use crate::random::Random;
use crate::templates::Templates;

/// Maps, lists of anything, lists of strings: what every template begins with.
const START: &str = r#"{{ $m := dict "a" (dict "b" 1 "c" (dict "d" 2)) "e" (list 3 (dict "f" 4)) "x" nil -}}
{{ $n := dict "a" (dict "c" (dict "d" 5 "g" 6)) "h" (splitList "," "z,y,x") -}}
{{ $l := list 3 1 2 $m.a }}{{ $k := list }}{{ $s := splitList "," "d,b,c,a" }}{{ $t := toStrings $s -}}
"#;
const SHOW: &str = "{{ list $m $n $l $k $s $t | toJson }}\n";
/// Names that change what they are given.
const HELPERS: &str = r#"{{ define "set" }}{{ $_ := set . "i" (len .) }}{{ end }}
{{- define "sort" }}{{ sortAlpha . | join "," }}{{ end }}
{{- define "show" }}{{ . | toJson }}{{ end }}
{{- define "merge" }}{{ $_ := mergeOverwrite . (dict "a" (dict "j" (len .))) }}{{ toJson . }}{{ end }}"#;

/// What stands for a word in angle brackets, which may hold others.
const WORDS: &[(&str, &[&str])] = &[
    ("<key>", &[r#""a""#, r#""b""#, r#""c""#, r#""e""#, r#""h""#, r#""x""#]),
    ("<number>", &["0", "1", "2", "3", "4", "5", "6"]),
    (
        "<value>",
        &["<number>", "<number>", "nil", "<map>", "<list>", "<strings>"],
    ),
    (
        "<held map>",
        &[
            "$m",
            "$m",
            "$n",
            "$m.a",
            "$n.a",
            "$n.a.c",
            ".Values.m",
            ".Values",
            "(dict)",
        ],
    ),
    (
        "<map>",
        &[
            "<held map>",
            "<held map>",
            "<held map>",
            "<held map>",
            "(deepCopy <held map>)",
            "(pick <held map> <key> \"c\")",
            "(omit <held map> <key>)",
            "(merge (dict) <held map> <held map>)",
            "(mergeOverwrite (dict \"a\" (dict \"q\" 1)) <held map>)",
            "(merge (deepCopy <held map>) <held map>)",
            "(dict <key> <held map> \"k\" <held map>)",
            "(fromYaml (toYaml <held map>))",
        ],
    ),
    (
        "<held list>",
        &[
            "$l",
            "$k",
            "$s",
            "$m.e",
            "$n.h",
            "$t",
            ".Values.l",
            ".Values.ls",
            "(list 1 2)",
        ],
    ),
    (
        "<list>",
        &[
            "<held list>",
            "<held list>",
            "<strings>",
            "(append <held list> <number>)",
            "(prepend <held list> <map>)",
            "(slice <held list> <number> <number>)",
            "(slice <held list> <number>)",
            "(slice (append <held list> <number>) <number> <number>)",
            "(slice (slice <held list> <number>) <number> <number>)",
            "(concat <held list> $k)",
            "(rest <held list>)",
            "(initial <held list>)",
            "(reverse <held list>)",
            "(uniq <held list>)",
            "(without <held list> 1 \"a\")",
            "(compact <held list>)",
            "(deepCopy <held list>)",
        ],
    ),
    (
        "<held strings>",
        &["$s", "$s", "$t", "$n.h", "$k", "(splitList \",\" \"c,a,b\")"],
    ),
    (
        "<strings>",
        &[
            "<held strings>",
            "<held strings>",
            "(sortAlpha <held strings>)",
            "(toStrings <held strings>)",
            "(slice <held strings> <number> <number>)",
            "(slice (deepCopy <held strings>) <number> <number>)",
            "(deepCopy <held strings>)",
            "(keys <held map> | sortAlpha)",
            "(regexFindAll \"[a-z]\" \"zyxw\" -1)",
        ],
    ),
    (
        "<step>",
        &[
            "{{ $_ := set <map> <key> <value> }}",
            "{{ $_ := set <map> <key> <value> }}",
            "{{ $_ := unset <map> <key> }}",
            "{{ $_ := merge <map> <map> }}",
            "{{ $_ := mergeOverwrite <map> <map> }}",
            "{{ $m = <map> }}",
            "{{ $n = mustMergeOverwrite <map> <map> }}",
            "{{ $l = <list> }}",
            "{{ $k = <list> }}",
            "{{ $s = <strings> }}",
            "{{ $t = <strings> }}",
            "{{ $_ := sortAlpha <strings> }}",
            "{{ range $i, $v := <list> }}{{ $i }}{{ $_ := sortAlpha <strings> }}{{ end }}",
            "{{ range $i, $v := <map> }}{{ $i }}{{ $_ := set <map> $i 7 }}{{ end }}",
            "{{ include \"set\" <map> }}{{ include \"show\" <map> }}",
            "{{ include \"show\" $s }}{{ include \"sort\" <strings> }}{{ include \"show\" $s }}",
            "{{ include \"merge\" <map> }}{{ include \"show\" <map> }}",
            "{{ tpl \"{{ $_ := set .Values \\\"w\\\" 1 }}{{ .Values.w }}\" $ }}{{ .Values | toJson }}",
        ],
    ),
];

pub fn templates(random: &mut Random) -> Templates {
    let steps: String = (0..2 + random.below(5)).map(|_| format!("<step>{SHOW}")).collect();
    Templates {
        file: expand(random, START.to_owned() + &steps),
        helpers: HELPERS.to_owned(),
    }
}

/// The text with something in place of each word.
fn expand(random: &mut Random, mut text: String) -> String {
    loop {
        let words = WORDS
            .iter()
            .filter_map(|(word, choices)| Some((text.find(word)?, word, choices)));
        let Some((at, word, choices)) = words.min() else {
            return text;
        };
        text.replace_range(at..at + word.len(), random.pick(choices));
    }
}
