//! Tests without a Go fixture: re-entry by functions, methods, limits.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use super::super::func::{CallError, Func, Param};
use super::super::host::Plain;
use super::super::meter::Meter;
use super::super::value::{MapKind, NamedType, Object, Str};
use super::tests::data;
use super::*;

/// A host whose functions execute templates of the same set, as Helm's `include` does.
struct Charts {
    set: Arc<Set>,
    meter: Meter,
    max_depth: usize,
    fuel: usize,
    max_output: usize,
}

impl Host for Charts {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn max_depth(&self) -> usize {
        self.max_depth
    }

    fn step(&mut self) -> Result<(), String> {
        self.fuel = self.fuel.checked_sub(1).ok_or("out of fuel")?;
        Ok(())
    }

    fn output(&mut self, bytes: usize, _added: usize) -> Result<(), String> {
        if bytes > self.max_output {
            Err("too much output".to_owned())
        } else {
            Ok(())
        }
    }

    fn call_method(&mut self, receiver: &Value, _name: &str, args: &[Value]) -> Result<Value, CallError> {
        match (receiver, args) {
            (Value::Map(map), [Value::String(name)]) => map.get(name.as_bytes()).ok_or("no table".into()),
            (Value::Map(map), []) => Ok(Value::Map(map.with_kind(MapKind::Any))),
            _ => Ok(Value::Nil),
        }
    }
}

static VALUES: NamedType = NamedType {
    name: "common.Values",
    of_bytes: false,
    methods: &[("AsMap", &[]), ("Table", &[Param::String])],
};

fn funcs() -> FuncMap<Charts> {
    let include = |ctx: &mut Charts, name: &Str, data: &Value| {
        let set = ctx.set.clone();
        let mut out = Vec::new();
        exec(&set, &name.to_text(), data, &funcs(), ctx, &mut out)?;
        Ok::<_, CallError>(out)
    };
    [
        Func::with_context("include", include),
        Func::new("fail", || Err::<Value, _>("boom")),
    ]
    .into_iter()
    .collect()
}

fn run_with(text: &str, json: &serde_json::Value, adjust: impl Fn(&mut Charts)) -> Result<String, Box<ExecError>> {
    let mut set = Set::new("root");
    set.parse("t.yaml", text, &funcs()).unwrap();
    let set = Arc::new(set);
    let mut host = Charts {
        set: set.clone(),
        meter: Meter::default(),
        max_depth: 250,
        fuel: 10_000,
        max_output: 10_000,
    };
    adjust(&mut host);
    let mut root = data(json);
    if let Value::Map(map) = &root {
        let values = map.get(b"Values").unwrap_or(Value::Nil);
        if let Value::Map(values) = values {
            map.insert("Values".into(), Value::Map(values.with_kind(MapKind::Named(&VALUES))))
                .unwrap();
        }
        map.insert("Object".into(), Value::Object(Rc::new(Version))).unwrap();
        root = Value::Map(map.clone());
    }
    let mut out = Vec::new();
    exec(&set, "t.yaml", &root, &funcs(), &mut host, &mut out)?;
    assert_eq!(host.meter.depth(), 0);
    Ok(String::from_utf8(out).unwrap())
}

fn run(text: &str) -> String {
    let json = serde_json::json!({"s": "x", "Values": {"a": 1, "sub": {"b": "y"}, "Upper": "u", "AsMap": 5}});
    run_with(text, &json, |_| {}).unwrap_or_else(|error| error.to_string())
}

struct Version;

impl Object for Version {
    fn type_name(&self) -> &'static str {
        "*semver.Version"
    }
    fn kind(&self) -> &'static str {
        "ptr"
    }
    fn field(&self, name: &str) -> Option<Value> {
        (name == "Field").then(|| Value::string("f"))
    }
    fn call(&self, method: &str, args: &[Value]) -> Option<Result<Value, String>> {
        match (method, args) {
            ("Major", []) => Some(Ok(Value::Uint64(1))),
            ("Plus", [Value::Int(n)]) => Some(Ok(Value::Int(n + 1))),
            ("Bad", []) => Some(Err("bad version".to_owned())),
            _ => None,
        }
    }
    fn params(&self, method: &str) -> Option<&'static [Param]> {
        match method {
            "Major" | "Bad" => Some(&[]),
            "Plus" => Some(&[Param::Int]),
            _ => None,
        }
    }
    fn display(&self) -> String {
        "1.2.3".to_owned()
    }
    fn to_json(&self) -> Result<serde_json::Value, String> {
        Ok(self.display().into())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The start of an error at that column.
fn place(column: usize, node: &str) -> String {
    format!("template: t.yaml:1:{column}: executing \"t.yaml\" at <{node}>: ")
}

#[test]
fn functions_execute_templates() {
    let text = "{{define \"d\"}}<{{.}}{{$}}>{{end}}{{$x := 1}}{{include \"d\" .s | printf \"%s!\"}}{{$x}}";
    assert_eq!(run(text), "<xx>!1");
    let json = || serde_json::json!({"s": "x"});
    let error = run_with("{{define \"d\"}}\n{{.s.y}}{{end}}a{{include \"d\" .}}", &json(), |_| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "template: t.yaml:2:18: executing \"t.yaml\" at <include \"d\" .>: error calling include: \
         template: t.yaml:2:4: executing \"d\" at <.s.y>: can't evaluate field y in type interface {}"
    );
    let inner = error.inner().unwrap();
    assert_eq!(inner.place.as_ref().unwrap().executing, "d");
    assert_eq!(inner.message, "can't evaluate field y in type interface {}");
    let error = run_with("{{include \"e\" .}}", &json(), |_| {}).unwrap_err();
    let missing = "template: no template \"e\" associated with template \"root\"";
    assert_eq!(error.inner().unwrap().to_string(), missing);
    let error = run_with("{{fail}}", &json(), |_| {}).unwrap_err();
    assert_eq!(error.cause, Some(CallError::Text("boom".to_owned())));
}

#[test]
fn named_maps_and_objects_have_methods() {
    for (text, expected) in [
        (
            "{{.Values.AsMap | printf \"%T\"}} {{printf \"%T\" .Values}}",
            "map[string]interface {} common.Values",
        ),
        ("{{(.Values.Table \"sub\").b}}{{(\"sub\" | .Values.Table).b}}", "yy"),
        ("{{.Values.Upper}}{{.Values.sub.b}}", "uy"),
        (
            "{{.Object}} {{.Object.Major}} {{.Object.Field}} {{.Object.Plus 2}} {{3 | .Object.Plus}}",
            "1.2.3 1 f 3 4",
        ),
        (
            "{{printf \"%s %v %q %T\" .Object .Object .Object .Object}}",
            "1.2.3 1.2.3 \"1.2.3\" *semver.Version",
        ),
    ] {
        assert_eq!(run(text), expected, "{text}");
    }
    for (text, node, problem) in [
        (
            "{{.Values.Table \"zz\"}}",
            ".Values.Table",
            "error calling Table: no table",
        ),
        (
            "{{.Values.Table}}",
            ".Values.Table",
            "wrong number of args for Table: want 1 got 0",
        ),
        (
            "{{.Values.Upper 1}}",
            ".Values.Upper",
            "Upper is not a method but has arguments",
        ),
        (
            "{{.Object.Zz}}",
            ".Object.Zz",
            "can't evaluate field Zz in type interface {}",
        ),
        ("{{.Object.Bad}}", ".Object.Bad", "error calling Bad: bad version"),
        (
            "{{.Object.Field 1}}",
            ".Object.Field",
            "Field has arguments but cannot be invoked as function",
        ),
    ] {
        assert_eq!(run(text), place(9, node) + problem, "{text}");
    }
    assert_eq!(run("{{.Values.Table 1}}"), place(16, "1") + "expected string; found 1");
    let problem = "can't evaluate field Zz in type *semver.Version";
    assert_eq!(run("{{(.Object).Zz}}"), place(3, ".Object") + problem);
}

#[test]
fn limits_end_an_execution() {
    let too_deep = "exceeded maximum template depth (100000)";
    for (text, problem) in [
        (
            "{{define \"d\"}}{{if true}}{{template \"d\" .}}{{end}}{{end}}{{template \"d\" .}}",
            too_deep,
        ),
        (
            "{{define \"d\"}}{{with (print (include \"d\" .))}}{{.}}{{end}}{{end}}{{include \"d\" .}}",
            too_deep,
        ),
        ("{{range 100000}}{{end}}", "out of fuel"),
        ("{{range 100000}}x{{end}}", "too much output"),
        (
            "{{printf \"%9999999d%9999999d%9999999d%9999999d%9999999d%9999999d%9999999d\" 1 1 1 1 1 1 1}}",
            "error calling printf: result exceeds 67108864 bytes",
        ),
    ] {
        let error = run_with(text, &serde_json::json!({}), |host| host.max_output = 50)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with(problem), "{error}");
    }
}

#[test]
fn parser_nesting_is_limited() {
    // As large as the stacks of the threads that parse beside a render.
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    thread.spawn(check_parser_nesting).unwrap().join().unwrap();
}

fn check_parser_nesting() {
    let funcs = FuncMap::<Plain>::new();
    let mut set = Set::default();
    let nested = |open: &str, close: &str| open.repeat(5000) + &close.repeat(5000);
    let parentheses = format!("{{{{{}}}}}", nested("(", ")").replace("()", "(1)"));
    for (text, message) in [
        (nested("{{if 1}}", "{{end}}"), "exceeded maximum nesting depth"),
        (nested("{{range 1}}", "{{end}}"), "exceeded maximum nesting depth"),
        (
            "{{if 0}}".to_owned() + &nested("{{else if 0}}", ""),
            "exceeded maximum nesting depth",
        ),
        (parentheses, "max expression depth exceeded"),
    ] {
        assert_eq!(set.parse("t", text, &funcs).unwrap_err().message, message);
    }
    for levels in [1990, 190] {
        let fits = "{{if 1}}".repeat(levels) + "x" + &"{{end}}".repeat(levels);
        set.parse("t", fits, &funcs).unwrap();
    }
    let mut out = Vec::new();
    exec(&set, "t", &Value::Nil, &funcs, &mut Plain::default(), &mut out).unwrap();
    assert_eq!(out, b"x");
}
