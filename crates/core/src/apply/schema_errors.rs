//! Parses the API server's errors about objects that do not fit their schema: which fields, and what to do.
//!
//! Server-side apply answers `failed to create typed patch object (…): .spec.x: field not declared in schema`, or a list
//! of such lines after `errors:` (sigs.k8s.io/structured-merge-diff, `typed/validate.go`).

use data_encoding::BASE64;
use serde_json::{Map, Value};

use crate::drift::managed_fields::may_have;
use crate::usage::requests::quantity;

/// What the API server says of a null where a schema wants something else (`in body must be of type object: "null"`).
const NULL_REFUSED: &str = "in body must be of type ";

/// One step of a path: a field, or an item of a list by its keys.
#[derive(Clone, Debug, PartialEq)]
enum ErrorPathStep {
    Field(String),
    Item(Map<String, Value>),
}

/// One complaint: the path as the server prints it, without the first dot, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub path: String,
    pub what: String,
}

/// The complaints of an error message; none if it is no such message.
pub fn complaints(message: &str) -> Vec<Complaint> {
    let Some((_, list)) = message
        .split_once("failed to create typed patch object (")
        .and_then(|(_, rest)| rest.split_once("): "))
    else {
        return Vec::new();
    };
    let complaint = |line: &str| {
        let (path, what) = split_path(line.trim().strip_prefix('.')?)?;
        Some(Complaint {
            path: path.to_owned(),
            what: what.to_owned(),
        })
    };
    list.lines().filter_map(complaint).collect()
}

/// The path ends at the first `: ` outside of quotes.
fn split_path(line: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let mut previous = ' ';
    for (index, c) in line.char_indices() {
        match c {
            '"' if previous != '\\' => quoted = !quoted,
            ':' if !quoted && line[index..].starts_with(": ") => return Some((&line[..index], &line[index + 2..])),
            _ => {}
        }
        previous = c;
    }
    None
}

/// What to do about items of one list with the same key, of which each means something.
pub const DIFFERENT_DUPLICATES: &str = "items of one list have the same key and different content, and server-side apply can keep only one of \
                                        them: change the key of one of them, such as its port";

/// True if an object was refused because of items with the same key.
pub fn has_duplicates(message: &str) -> bool {
    message.contains(DUPLICATES)
}

/// In the API server's message about items with the same key.
const DUPLICATES: &str = "duplicate entries for key ";

/// The object without the items that have the same keys as a later one of their list, and what was left out. An item is left out
/// only if nothing is lost: it is equal, or a variable that the later one replaces. Host names of one IP address are merged.
///
/// `None` if the message complains of no such items, if they can't be found, or if they differ in what they mean.
pub fn without_duplicates(object: &Value, message: &str) -> Option<(Value, Vec<String>)> {
    let mut object = object.clone();
    let mut left_out = Vec::new();
    for complaint in complaints(message) {
        let Some(keys) = complaint.what.strip_prefix(DUPLICATES) else {
            continue;
        };
        let (Some(path), Some(keys)) = (parse(&complaint.path), parse(keys)) else {
            continue;
        };
        let [ErrorPathStep::Item(keys)] = keys.as_slice() else {
            continue;
        };
        let list_name = match path.last() {
            Some(ErrorPathStep::Field(name)) => name.as_str(),
            _ => "",
        };
        let (mut removed, mut differs) = (0, false);
        at(&mut object, &path, &mut |list| {
            let Some(items) = list.as_array_mut() else { return };
            let Some(last) = items.iter().rposition(|item| may_have(item, keys)) else {
                return;
            };
            let mut kept = items[last].clone();
            for item in items[..last].iter().rev().filter(|item| may_have(item, keys)) {
                differs |= !is_replaced_by(list_name, item, &mut kept);
            }
            let before = items.len();
            items[last] = kept;
            let mut index = 0;
            items.retain(|item| {
                index += 1;
                index > last || !may_have(item, keys)
            });
            removed += before - items.len();
        });
        if differs {
            return None;
        }
        if removed > 0 {
            left_out.push(format!("{}: {}", complaint.path, complaint.what));
        }
    }
    (!left_out.is_empty()).then_some((object, left_out))
}

/// True if an earlier item of a list can be left out for a later one with the same key. Adds to the later one what both mean.
fn is_replaced_by(list: &str, earlier: &Value, later: &mut Value) -> bool {
    match list {
        // As Kubernetes reads variables.
        "env" => true,
        "hostAliases" => {
            let names = earlier["hostnames"].as_array().cloned().unwrap_or_default();
            if let Some(known) = later.get_mut("hostnames").and_then(Value::as_array_mut) {
                for name in names.into_iter().rev() {
                    if !known.contains(&name) {
                        known.insert(0, name);
                    }
                }
            }
            later["hostnames"].is_array()
        }
        _ => {
            let plain = |item: &Value| {
                let mut item = item.clone();
                if item["protocol"] == "TCP"
                    && let Some(fields) = item.as_object_mut()
                {
                    fields.remove("protocol");
                }
                item
            };
            plain(earlier) == plain(later)
        }
    }
}

/// The object of a custom resource without the nulls that its schema doesn't take. A create drops them, and with it Helm
/// as it was and `kubectl apply`; server-side apply refuses them. `refused`: fields, as `spec.list[0].field`, each with what
/// was said of it. `None` if it says nothing of nulls, or they can't be found.
pub fn without_nulls(object: &Value, refused: &[(&str, &str)]) -> Option<Value> {
    let mut object = object.clone();
    let mut is_changed = false;
    for (field, what) in refused {
        let is_null = what.contains(NULL_REFUSED) && what.ends_with(": \"null\"");
        let pointer = format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
        let Some((parent, name)) = pointer.rsplit_once('/').filter(|_| is_null) else {
            continue;
        };
        let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
        if let Some(fields) = parent.filter(|fields| fields.get(name).is_some_and(Value::is_null)) {
            fields.remove(name);
            is_changed = true;
        }
    }
    is_changed.then_some(object)
}

/// The fields of an object that the API server could not decode: quantities, each with its value, and base64. The server's message
/// names none.
pub fn undecodable_fields(object: &Value, message: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is_quantity = message.contains("quantit");
    let is_not_one = |text: &str| quantity(text.trim_start_matches('-')).is_none();
    let is_base64 = message.contains("base64");
    find_undecodable(object, &mut Vec::new(), &mut |path, text| {
        let parent = path.len().checked_sub(2).map_or("", |at| path[at].as_str());
        let is_wrong = match parent {
            "limits" | "requests" | "capacity" | "hard" => is_quantity && is_not_one(text),
            "data" | "binaryData" => is_base64 && BASE64.decode(text.as_bytes()).is_err(),
            _ => is_quantity && path.last().is_some_and(|field| field == "sizeLimit") && is_not_one(text),
        };
        if is_wrong {
            let path = path.join(".").replace(".[", "[");
            // The data of a Secret is not shown.
            found.push(if is_base64 {
                format!("{path}: not base64")
            } else {
                format!("{path}: {text:?}")
            });
        }
    });
    found
}

fn find_undecodable(value: &Value, path: &mut Vec<String>, show: &mut dyn FnMut(&[String], &str)) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                path.push(field.clone());
                find_undecodable(value, path, show);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(format!("[{index}]"));
                find_undecodable(item, path, show);
                path.pop();
            }
        }
        Value::String(text) => show(path, text),
        _ => {}
    }
}

/// Shows every value that a path leads to.
fn at(value: &mut Value, path: &[ErrorPathStep], show: &mut dyn FnMut(&mut Value)) {
    let Some((step, rest)) = path.split_first() else {
        return show(value);
    };
    match (step, value) {
        (ErrorPathStep::Field(name), Value::Object(fields)) => {
            if let Some(child) = fields.get_mut(name) {
                at(child, rest, show);
            }
        }
        (ErrorPathStep::Item(keys), Value::Array(items)) => {
            for item in items.iter_mut().filter(|item| may_have(item, keys)) {
                at(item, rest, show);
            }
        }
        _ => {}
    }
}

fn parse(mut path: &str) -> Option<Vec<ErrorPathStep>> {
    let mut steps = Vec::new();
    while !path.is_empty() {
        if let Some(rest) = path.strip_prefix('[') {
            let (keys, rest) = parse_keys(rest)?;
            steps.push(ErrorPathStep::Item(keys));
            path = rest;
        } else {
            let field = path.strip_prefix('.').unwrap_or(path);
            let end = field.find(['.', '[']).unwrap_or(field.len());
            steps.push(ErrorPathStep::Field(field.get(..end)?.to_owned()));
            path = field.get(end..)?;
        }
    }
    Some(steps)
}

/// `name="x",port=80]rest`: each value is JSON.
fn parse_keys(mut text: &str) -> Option<(Map<String, Value>, &str)> {
    let mut keys = Map::new();
    loop {
        let (name, rest) = text.split_once('=')?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let value = values.next()?.ok()?;
        keys.insert(name.to_owned(), value);
        let rest = rest.get(values.byte_offset()..)?;
        match rest.strip_prefix(',') {
            Some(more) => text = more,
            None => return Some((keys, rest.strip_prefix(']')?)),
        }
    }
}

/// The line of a template, from 1, on which a field is written, if there is only one that could be meant. The path is
/// that of a complaint.
pub fn line_of(path: &str, template: &str) -> Option<usize> {
    let Some(ErrorPathStep::Field(name)) = parse(path)?.pop() else {
        return None;
    };
    let is_it = |line: &str| {
        let line = line.trim_start().trim_start_matches("- ").trim_start();
        let rest = line
            .strip_prefix(name.as_str())
            .or_else(|| line.strip_prefix('"')?.strip_prefix(name.as_str())?.strip_prefix('"'));
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let mut lines = template.lines().enumerate().filter(|(_, line)| is_it(line));
    let (first, _) = lines.next()?;
    lines.next().is_none().then_some(first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_decoded_is_named() {
        let resources =
            json!({"limits": {"cpu": "lots", "memory": "1.5Gi"}, "requests": {"cpu": "1e3", "memory": "-5m"}});
        let object = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "resources": resources}]}});
        let quantity = "quantities must match the regular expression";
        assert_eq!(
            undecodable_fields(&object, quantity),
            ["spec.containers[1].resources.limits.cpu: \"lots\""]
        );
        let secret = json!({"data": {"a": "not base64!", "b": "YQ=="}});
        assert_eq!(
            undecodable_fields(&secret, "illegal base64 data at input byte 3"),
            ["data.a: not base64"]
        );
        assert!(undecodable_fields(&object, "anything else").is_empty());
    }

    const MESSAGE: &str = "failed to create typed patch object (default/a; apps/v1, Kind=Deployment): errors:\n  \
        .spec.containers[name=\"x\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]\n  \
        .spec.containers[name=\"x\"].env: duplicate entries for key [name=\"A: b\"]\n  \
        .spec.containers: duplicate entries for key [name=\"y\"]\n  \
        .spec.bogus: field not declared in schema";

    #[test]
    fn complaints_are_read() {
        let found = complaints(MESSAGE);
        assert_eq!(found.len(), 4);
        assert_eq!(found[1].path, "spec.containers[name=\"x\"].env");
        assert_eq!(found[1].what, "duplicate entries for key [name=\"A: b\"]");
        assert_eq!(found[3].what, "field not declared in schema");
        let single = complaints(
            "failed to create typed patch object (/a; x.io/v1, Kind=Foo): .spec.bogus: field not declared in schema",
        );
        assert_eq!(single[0].path, "spec.bogus");
        assert!(complaints("etcd is down").is_empty());
    }

    #[test]
    fn items_that_mean_something_else_are_not_dropped() {
        let message = |list: &str, key: &str| {
            format!(
                "failed to create typed patch object (a; v1, Kind=Pod): .spec.{list}: duplicate entries for key [{key}]"
            )
        };
        let ports = json!({"spec": {"ports": [{"name": "http", "containerPort": 80}, {"name": "metrics", "containerPort": 80}]}});
        let message_of_ports = message("ports", "containerPort=80,protocol=\"TCP\"");
        assert_eq!(without_duplicates(&ports, &message_of_ports), None);
        assert!(has_duplicates(&message_of_ports));
        let aliases = json!({"spec": {"hostAliases": [
            {"ip": "1.2.3.4", "hostnames": ["a"]}, {"ip": "5.6.7.8", "hostnames": ["b"]},
            {"ip": "1.2.3.4", "hostnames": ["a", "c"]}, {"ip": "1.2.3.4", "hostnames": ["d"]},
        ]}});
        let (merged, _) = without_duplicates(&aliases, &message("hostAliases", "ip=\"1.2.3.4\"")).unwrap();
        let names = &merged["spec"]["hostAliases"][1]["hostnames"];
        assert_eq!(*names, json!(["a", "c", "d"]), "{merged}");
        assert_eq!(merged["spec"]["hostAliases"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn the_last_of_equal_items_stays() {
        let object = json!({"spec": {"containers": [
            {"name": "y", "image": "new"},
            {"name": "x", "env": [{"name": "A: b", "value": "1"}, {"name": "C"}, {"name": "A: b", "value": "2"}],
             "ports": [{"containerPort": 80}, {"containerPort": 81}, {"containerPort": 80, "protocol": "TCP"}]},
            {"name": "y", "image": "new"},
        ]}});
        let (object, left_out) = without_duplicates(&object, MESSAGE).unwrap();
        assert_eq!(
            object,
            json!({"spec": {"containers": [
                {"name": "x", "env": [{"name": "C"}, {"name": "A: b", "value": "2"}],
                 "ports": [{"containerPort": 81}, {"containerPort": 80, "protocol": "TCP"}]},
                {"name": "y", "image": "new"},
            ]}})
        );
        assert_eq!(left_out.len(), 3);
        assert_eq!(without_duplicates(&object, MESSAGE), None, "there are none left");
        assert_eq!(without_duplicates(&object, "etcd is down"), None);
    }

    #[test]
    fn nulls_that_are_refused_are_left_out() {
        let object = json!({"spec": {"a": null, "b": {"c": null}, "list": [{"d": null, "e": 1}], "f": "null"}});
        let what = "Invalid value: \"null\": it in body must be of type object: \"null\"";
        let refused = |fields: &[&'static str]| fields.iter().map(|field| (*field, what)).collect::<Vec<_>>();
        let fixed = without_nulls(&object, &refused(&["spec.b.c", "spec.list[0].d"]));
        let expected = json!({"spec": {"a": null, "b": {}, "list": [{"e": 1}], "f": "null"}});
        assert_eq!(fixed, Some(expected));
        for nowhere in ["spec.f", "spec.b", "spec.list[1].d", "spec.list[0]", "<nil>", ""] {
            assert_eq!(without_nulls(&object, &refused(&[nowhere])), None, "{nowhere}");
        }
        assert_eq!(without_nulls(&object, &[("spec.a", "Required value")]), None);
    }

    #[test]
    fn a_field_is_found_where_it_is_written_once() {
        let template = "spec:\n  {{ if x }}\n  - bogus: 1\n  \"odd\": 2\n  twice: 1\n  twice: 2\n  bogusX: 1\n";
        assert_eq!(line_of("spec.bogus", template), Some(3));
        assert_eq!(line_of("spec[name=\"a\"].odd", template), Some(4));
        for nowhere in ["spec.twice", "spec.none", "spec[name=\"a\"]", ""] {
            assert_eq!(line_of(nowhere, template), None, "{nowhere}");
        }
    }
}
