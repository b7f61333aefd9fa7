//! `--name-template`. Helm gives it all of sprig's functions, `env`, `expandenv` and `getHostByName` among them, and none of its own.

use super::hosts;
use crate::template::go::{CallError, Func, FuncMap, Host, MissingKey, Param, Set, Value, exec};
use crate::template::sprig::{self, Call, Drawn, Env, Source};

const NAME: &str = "name-template";

struct Context<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    depth: usize,
}

impl Host for Context<'_> {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }

    fn max_depth(&self) -> usize {
        100
    }

    fn missing_key(&self) -> MissingKey {
        MissingKey::Invalid
    }
}

impl Env for Context<'_> {
    fn once(
        &mut self,
        _call: &Call,
        _fits: impl Fn(&Drawn) -> bool,
        make: impl FnOnce(&mut Source) -> Result<Drawn, CallError>,
    ) -> Result<Drawn, CallError> {
        make(&mut Source::system(jiff::Timestamp::now()))
    }

    fn burn(&mut self, _steps: u64) -> Result<(), CallError> {
        Ok(())
    }
}

/// The release's name that `text` makes.
///
/// # Errors
/// Go's text of a parse or execution error.
pub fn render(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut functions: FuncMap<Context<'_>> = sprig::functions().into_iter().collect();
    functions.extend([
        Func {
            name: "env",
            params: &[Param::String],
            variadic: None,
            body: lookup,
        },
        Func {
            name: "expandenv",
            params: &[Param::String],
            variadic: None,
            body: expandenv,
        },
        Func {
            name: "getHostByName",
            params: &[Param::String],
            variadic: None,
            body: get_host_by_name,
        },
    ]);
    let mut set = Set::new(NAME);
    set.parse(NAME, text, &functions).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    let mut context = Context { env, depth: 0 };
    exec(&set, NAME, &Value::Nil, &functions, &mut context, &mut out).map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn lookup(context: &mut Context<'_>, args: &[Value]) -> Result<Value, CallError> {
    Ok(Value::string((context.env)(&text_of(args)).unwrap_or_default()))
}

fn expandenv(context: &mut Context<'_>, args: &[Value]) -> Result<Value, CallError> {
    Ok(Value::string(expand(&text_of(args), context.env)))
}

fn get_host_by_name(_context: &mut Context<'_>, args: &[Value]) -> Result<Value, CallError> {
    let address = hosts::addresses(&text_of(args)).into_iter().next();
    // Sprig draws one of none, at which Go panics.
    let none = || CallError::Text("invalid argument to Intn".to_owned());
    Ok(Value::string(address.ok_or_else(none)?))
}

fn text_of(args: &[Value]) -> String {
    match args.first() {
        Some(Value::String(text)) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        _ => String::new(),
    }
}

/// Go's `os.Expand`: `$NAME` and `${NAME}`.
fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out.push_str(rest.get(..dollar).unwrap_or_default());
        let after = rest.get(dollar + 1..).unwrap_or_default();
        let (name, width) = shell_name(after);
        match (name, width) {
            // Bad syntax such as `${}` is dropped; a lone `$` stays.
            ("", 0) => out.push('$'),
            ("", _) => {}
            (name, _) => out.push_str(&env(name).unwrap_or_default()),
        }
        rest = after.get(width..).unwrap_or_default();
    }
    out + rest
}

/// The name at the start of a text, and how many bytes it takes with its braces.
fn shell_name(text: &str) -> (&str, usize) {
    let special = |c: char| "*#$@!?-0123456789".contains(c);
    if let Some(inner) = text.strip_prefix('{') {
        return match inner.find('}') {
            Some(0) => ("", 2),
            Some(end) => (inner.get(..end).unwrap_or_default(), end + 2),
            None => ("", 1),
        };
    }
    if text.starts_with(special) {
        return (text.get(..1).unwrap_or_default(), 1);
    }
    let width = text
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
        .count();
    (text.get(..width).unwrap_or_default(), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        (name == "WHO").then(|| "web".to_owned())
    }

    #[test]
    fn names_have_the_environment_and_not_helms_functions() {
        let table = [
            ("{{ env \"WHO\" }}-{{ \"A\" | lower }}", "web-a"),
            ("{{ env \"NOBODY\" }}x", "x"),
            ("{{ expandenv \"$WHO-${WHO}s-$x-$\" }}", "web-webs--$"),
            ("a{{ .x }}", "a<no value>"),
        ];
        for (text, want) in table {
            assert_eq!(render(text, &env).as_deref(), Ok(want), "{text}");
        }
        let error = render("{{ include \"x\" . }}", &env).unwrap_err();
        assert_eq!(error, "template: name-template:1: function \"include\" not defined");
    }
}
