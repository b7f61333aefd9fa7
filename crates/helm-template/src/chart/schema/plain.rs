//! Schemas that plainly are schemas. Checking one against its metaschema takes longer than all else that is done with
//! it, and most charts' schemas are of a few keywords that every draft has.

use super::dialect::Draft;
use super::json::{Json, Members, Number};
use crate::sprig::regex;

/// How deep schemas are looked into.
const MAX_DEPTH: usize = 200;
/// Of how many items it is found out here that no two are equal.
const MAX_UNIQUE: usize = 64;
/// The keywords of the metaschemas that [`fits`] doesn't look into. What none of them knows they all accept.
const OTHERS: [&str; 20] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "id",
    "maxContains",
    "minContains",
    "multipleOf",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Whether the metaschema of the draft is sure to accept `schema`. False says nothing: the metaschema has to be asked.
pub(super) fn is_plain(draft: Draft, schema: &Json) -> bool {
    is_schema(draft, schema, 0)
}

fn is_schema(draft: Draft, schema: &Json, depth: usize) -> bool {
    match schema {
        Json::Bool(_) => draft >= Draft::V6,
        Json::Object(map) => depth < MAX_DEPTH && map.iter().all(|(key, value)| fits(draft, key, value, depth + 1)),
        _ => false,
    }
}

fn fits(draft: Draft, key: &str, value: &Json, depth: usize) -> bool {
    match key {
        "default" | "const" => true,
        "title" | "description" | "format" | "$comment" => value.text().is_some(),
        "examples" => matches!(value, Json::Array(_)),
        "readOnly" | "writeOnly" | "deprecated" | "uniqueItems" => matches!(value, Json::Bool(_)),
        "$schema" => value.text().is_some_and(is_metaschema),
        "$ref" => value.text().is_some_and(is_simple_reference),
        "type" => match value {
            Json::Array(types) => !types.is_empty() && types.iter().all(is_type) && are_unique(types),
            one => is_type(one),
        },
        "enum" => matches!(value, Json::Array(options) if !options.is_empty() && are_unique(options)),
        "required" => match value {
            Json::Array(names) => {
                (!names.is_empty() || draft >= Draft::V6)
                    && names.iter().all(|name| name.text().is_some())
                    && are_unique(names)
            }
            _ => false,
        },
        "properties" | "definitions" | "$defs" => are_schemas(draft, value, depth),
        "patternProperties" => {
            are_schemas(draft, value, depth) && matches!(value, Json::Object(map) if map.keys().all(is_pattern))
        }
        "items" | "not" | "if" | "then" | "else" | "contains" | "propertyNames" => is_schema(draft, value, depth),
        "additionalProperties" | "additionalItems" => matches!(value, Json::Bool(_)) || is_schema(draft, value, depth),
        "allOf" | "anyOf" | "oneOf" => match value {
            Json::Array(schemas) => !schemas.is_empty() && schemas.iter().all(|one| is_schema(draft, one, depth)),
            _ => false,
        },
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            matches!(value, Json::Number(n) if is_count(n))
        }
        "minimum" | "maximum" => matches!(value, Json::Number(_)),
        "exclusiveMinimum" | "exclusiveMaximum" => draft >= Draft::V6 && matches!(value, Json::Number(_)),
        "pattern" => value.text().is_some_and(is_pattern),
        other => !OTHERS.contains(&other),
    }
}

fn are_schemas(draft: Draft, value: &Json, depth: usize) -> bool {
    let all = |map: &Members| map.values().all(|schema| is_schema(draft, schema, depth));
    matches!(value, Json::Object(map) if all(map))
}

fn is_type(value: &Json) -> bool {
    value.text().is_some_and(|name| TYPES.contains(&name))
}

fn is_metaschema(url: &str) -> bool {
    url.starts_with("http") && Draft::from_url(url).is_some()
}

/// Whether it is a reference within the document, without characters that an URL may not have.
fn is_simple_reference(reference: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'.' | b'$');
    reference
        .strip_prefix('#')
        .is_some_and(|fragment| fragment.bytes().all(is_plain))
}

fn is_pattern(pattern: &str) -> bool {
    regex::check(pattern.as_bytes()).is_ok()
}

fn is_count(n: &Number) -> bool {
    n.text().bytes().all(|b| b.is_ascii_digit())
}

fn are_unique(items: &[Json]) -> bool {
    items.len() <= MAX_UNIQUE
        && items
            .iter()
            .enumerate()
            .all(|(at, item)| !items.iter().take(at).any(|earlier| earlier == item))
}

#[cfg(test)]
mod tests {
    use super::super::metaschemas;
    use super::*;

    const DRAFTS: [Draft; 5] = [Draft::V4, Draft::V6, Draft::V7, Draft::V2019, Draft::V2020];

    /// Values of every sort, right and wrong ones.
    const VALUES: [&str; 34] = [
        "true",
        "null",
        "0",
        "-1",
        "1.0",
        "1.5",
        "1e3",
        "\"\"",
        "\"string\"",
        "\"strin\"",
        "\"#/definitions/a\"",
        "\"#/a b\"",
        "\"# %\"",
        "\"http://json-schema.org/draft-07/schema#\"",
        "\"http://json-schema.org/draft-04/schema\"",
        "\"https://json-schema.org/draft/2020-12/schema\"",
        "\"json-schema.org/draft-07/schema#\"",
        "\"http://json-schema.org/draft-07/schema# %\"",
        "\"[\"",
        "\"^a+$\"",
        "[]",
        "[\"string\"]",
        "[\"string\", \"string\"]",
        "[\"string\", \"null\"]",
        "[\"a\", 1, null]",
        "[1, 1.0]",
        "[{}]",
        "[{\"type\": 1}]",
        "[true]",
        "{}",
        "{\"a\": {}}",
        "{\"a\": true}",
        "{\"[\": {}}",
        "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": []}}}",
    ];

    const KEYWORDS: [&str; 71] = [
        "default",
        "const",
        "title",
        "description",
        "format",
        "$comment",
        "examples",
        "readOnly",
        "writeOnly",
        "deprecated",
        "uniqueItems",
        "$schema",
        "$ref",
        "type",
        "enum",
        "required",
        "properties",
        "definitions",
        "$defs",
        "patternProperties",
        "items",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "additionalProperties",
        "additionalItems",
        "allOf",
        "anyOf",
        "oneOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxProperties",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "pattern",
        "$id",
        "dependencies",
        "multipleOf",
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$recursiveAnchor",
        "$recursiveRef",
        "$vocabulary",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "dependentRequired",
        "dependentSchemas",
        "id",
        "maxContains",
        "minContains",
        "prefixItems",
        "unevaluatedItems",
        "unevaluatedProperties",
        "maxItems",
        "minProperties",
        "$async",
        "form",
        "x-order",
        "extends",
        "divisibleBy",
        "disallow",
        "",
        "Type",
    ];

    /// Every keyword of every metaschema is looked into, or is one of [`OTHERS`].
    #[test]
    fn no_keyword_of_a_metaschema_is_taken_for_unknown() {
        let parts = |draft: &str, parts: &[&str]| -> Vec<String> {
            let parts = parts.iter().map(|part| format!("draft/{draft}/meta/{part}"));
            parts.chain([format!("draft/{draft}/schema")]).collect()
        };
        let v2019 = ["applicator", "content", "core", "format", "meta-data", "validation"];
        let v2020 = [
            "applicator",
            "content",
            "core",
            "format-annotation",
            "meta-data",
            "unevaluated",
            "validation",
        ];
        let old = ["draft-04/schema", "draft-06/schema", "draft-07/schema"].map(str::to_owned);
        let all = old
            .into_iter()
            .chain(parts("2019-09", &v2019))
            .chain(parts("2020-12", &v2020));
        let mut seen = 0;
        for path in all {
            let document = metaschemas::document(&format!("https://json-schema.org/{path}")).unwrap();
            let Some(Json::Object(properties)) = document.get("properties") else {
                panic!("{path} has no properties")
            };
            for keyword in properties.keys() {
                seen += 1;
                assert!(KEYWORDS.contains(&keyword), "{path}: {keyword}");
                let wrong = Json::parse(format!("{{{keyword:?}: {{\"type\": 1}}}}").as_bytes()).unwrap();
                let any = matches!(keyword, "default" | "const");
                assert!(
                    any || !is_plain(Draft::V2020, &wrong),
                    "{path}: {keyword} is taken for unknown"
                );
            }
        }
        assert!(seen > 150, "{seen}");
    }

    #[test]
    fn what_is_plain_the_metaschemas_accept() {
        let mut plain = 0;
        for draft in DRAFTS {
            for keyword in KEYWORDS {
                for value in VALUES {
                    let schema = Json::parse(format!("{{{keyword:?}: {value}}}").as_bytes()).unwrap();
                    if is_plain(draft, &schema) {
                        plain += 1;
                        assert_eq!(
                            metaschemas::check_whole(draft, &schema),
                            Ok(()),
                            "{draft:?} {keyword} {value}"
                        );
                    }
                }
            }
        }
        // Far from all, but many.
        assert!(plain > 1_000, "{plain}");
    }

    #[test]
    fn charts_of_ours_have_plain_schemas() {
        let text = include_bytes!("../../../../../charts/memcached/values.schema.json");
        assert!(is_plain(Draft::V7, &Json::parse(text).unwrap()));
    }
}
