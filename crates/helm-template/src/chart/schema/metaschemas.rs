//! The schemas of schemas, by which every schema is checked before it is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use referencing::meta;
use serde_json::{Value, json};

use super::compile::Compiler;
use super::compiled::{Compound, Index, Rare, Rarest, Schema};
use super::dialect::{Dialect, Draft};
use super::documents::{self, Document};
use super::failure::Failure;
use super::json::Json;
use super::{plain, validator};

/// What santhosh-tekuri/jsonschema has otherwise than the published documents: draft, pointer, key, value (null removes).
fn changes() -> [(Draft, &'static str, &'static str, Value); 10] {
    [
        (Draft::V4, "/properties/$ref", "type", json!("string")),
        (Draft::V4, "/properties/$schema", "format", json!("uri")),
        (Draft::V4, "/properties/enum", "minItems", json!(1)),
        (Draft::V4, "/properties/enum", "uniqueItems", json!(true)),
        (Draft::V6, "/properties/enum", "minItems", json!(1)),
        (Draft::V6, "/properties/enum", "uniqueItems", json!(true)),
        (Draft::V6, "/properties/examples", "type", Value::Null),
        (Draft::V6, "/properties/patternProperties", "propertyNames", Value::Null),
        (Draft::V7, "/properties/enum", "minItems", json!(1)),
        (Draft::V7, "/properties/enum", "uniqueItems", json!(true)),
    ]
}

/// The folder of the library's metaschemas that an URL names.
pub(super) fn folder(url: &str) -> Option<&str> {
    const FOLDERS: [&str; 8] = [
        "draft",
        "draft-04",
        "draft-06",
        "draft-07",
        "draft/2019-09",
        "draft/2019-09/meta",
        "draft/2020-12",
        "draft/2020-12/meta",
    ];
    on_site(url).filter(|path| FOLDERS.contains(path))
}

/// The path of an URL of the site where metaschemas are.
fn on_site(url: &str) -> Option<&str> {
    url.strip_prefix("http://json-schema.org/")
        .or_else(|| url.strip_prefix("https://json-schema.org/"))
}

/// The document at the URL of a metaschema, or of a part of one.
pub(super) fn document(url: &str) -> Option<Json> {
    let path = on_site(url)?;
    let (value, draft): (&Value, Option<Draft>) = match path {
        "draft-04/schema" => (&meta::DRAFT4, Some(Draft::V4)),
        "draft-06/schema" => (&meta::DRAFT6, Some(Draft::V6)),
        "draft-07/schema" => (&meta::DRAFT7, Some(Draft::V7)),
        "draft/2019-09/schema" => (&meta::DRAFT201909, None),
        "draft/2019-09/meta/applicator" => (&meta::DRAFT201909_APPLICATOR, None),
        "draft/2019-09/meta/content" => (&meta::DRAFT201909_CONTENT, None),
        "draft/2019-09/meta/core" => (&meta::DRAFT201909_CORE, None),
        "draft/2019-09/meta/format" => (&meta::DRAFT201909_FORMAT, None),
        "draft/2019-09/meta/meta-data" => (&meta::DRAFT201909_META_DATA, None),
        "draft/2019-09/meta/validation" => (&meta::DRAFT201909_VALIDATION, None),
        "schema" | "draft/2020-12/schema" => (&meta::DRAFT202012, None),
        "draft/2020-12/meta/applicator" => (&meta::DRAFT202012_APPLICATOR, None),
        "draft/2020-12/meta/content" => (&meta::DRAFT202012_CONTENT, None),
        "draft/2020-12/meta/core" => (&meta::DRAFT202012_CORE, None),
        "draft/2020-12/meta/format-annotation" => (&meta::DRAFT202012_FORMAT_ANNOTATION, None),
        "draft/2020-12/meta/format-assertion" => (&meta::DRAFT202012_FORMAT_ASSERTION, None),
        "draft/2020-12/meta/meta-data" => (&meta::DRAFT202012_META_DATA, None),
        "draft/2020-12/meta/unevaluated" => (&meta::DRAFT202012_UNEVALUATED, None),
        "draft/2020-12/meta/validation" => (&meta::DRAFT202012_VALIDATION, None),
        _ => return None,
    };
    let mut value = value.clone();
    for (_, pointer, key, change) in changes().into_iter().filter(|(of, ..)| Some(*of) == draft) {
        let (parent, name) = pointer.rsplit_once('/').unwrap_or(("", pointer));
        let Some(Value::Object(parent)) = value.pointer_mut(parent) else {
            continue;
        };
        let entry = parent.entry(name).or_insert_with(|| json!({}));
        if let Value::Object(entry) = entry {
            if change.is_null() {
                entry.remove(key);
            } else {
                entry.insert(key.to_owned(), change);
            }
        }
    }
    Json::parse(value.to_string().as_bytes()).ok()
}

fn url(draft: Draft) -> &'static str {
    match draft {
        Draft::V4 => "http://json-schema.org/draft-04/schema",
        Draft::V6 => "http://json-schema.org/draft-06/schema",
        Draft::V7 => "http://json-schema.org/draft-07/schema",
        Draft::V2019 => "https://json-schema.org/draft/2019-09/schema",
        Draft::V2020 => "https://json-schema.org/draft/2020-12/schema",
    }
}

/// The compiled metaschema of a draft.
fn compiled(draft: Draft) -> &'static [Schema] {
    static V4: LazyLock<Vec<Schema>> = LazyLock::new(|| compile(Draft::V4));
    static V6: LazyLock<Vec<Schema>> = LazyLock::new(|| compile(Draft::V6));
    static V7: LazyLock<Vec<Schema>> = LazyLock::new(|| compile(Draft::V7));
    static V2019: LazyLock<Vec<Schema>> = LazyLock::new(|| compile(Draft::V2019));
    static V2020: LazyLock<Vec<Schema>> = LazyLock::new(|| compile(Draft::V2020));
    match draft {
        Draft::V4 => &V4,
        Draft::V6 => &V6,
        Draft::V7 => &V7,
        Draft::V2019 => &V2019,
        Draft::V2020 => &V2020,
    }
}

fn compile(draft: Draft) -> Vec<Schema> {
    let compiled = Compiler::for_metaschemas().compile_all(&[url(draft).to_owned()]);
    compiled.unwrap_or_default().0
}

/// Checks that what stands at `pointer` of a document is a schema.
///
/// # Errors
/// The library's report.
pub(super) fn check(document: &Document, pointer: &str) -> Result<(), String> {
    let Some(schema) = documents::lookup(&document.root, pointer) else {
        return Ok(());
    };
    let dialect = document.resource(pointer).1.dialect;
    if dialect.vocabularies.is_some() || document.dialects().iter().any(|other| *other != dialect) {
        return check_mixed(document, dialect, schema);
    }
    if plain::is_plain(dialect.draft, schema) {
        return Ok(());
    }
    check_whole(dialect.draft, schema)
}

/// As [`check`] with the metaschema, of a document whose resources are all of one draft.
///
/// # Errors
/// The library's report.
pub(super) fn check_whole(draft: Draft, schema: &Json) -> Result<(), String> {
    let result = validator::validate(compiled(draft), 0, schema);
    result.map_err(|failure| report(&format!("{}#", url(draft)), failure))
}

fn report(url: &str, failure: Failure) -> String {
    let mut lines = vec![format!("jsonschema validation failed with '{url}'")];
    failure
        .top()
        .iter()
        .for_each(|failure: &Failure| failure.lines(0, &mut lines));
    lines.join("\n")
}

/// As [`check`], of a document whose resources are of several dialects.
fn check_mixed(document: &Document, dialect: Dialect, schema: &Json) -> Result<(), String> {
    let mixed = document.mixed.get_or_init(|| mixed(document.dialects()));
    let mixed = mixed.as_ref().map_err(String::clone)?;
    let root = |dialect: Dialect| mixed.roots.get(&dialect).copied().unwrap_or_default();
    let embedded = |pointer: &str| document.dialect_at(pointer).map(root);
    let result = validator::validate_schema(&mixed.schemas, root(dialect), &embedded, schema);
    result.map_err(|failure| match dialect.vocabularies {
        Some(_) => report(OWN, failure),
        None => report(&format!("{}#", url(dialect.draft)), failure),
    })
}

/// Where the metaschema stands that the library makes of vocabularies.
const OWN: &str = "urn:mem:metaschema";

/// The metaschemas of several dialects.
pub(super) struct Mixed {
    schemas: Vec<Schema>,
    /// Which of them are the dialects' own.
    roots: BTreeMap<Dialect, Index>,
}

fn mixed(dialects: &BTreeSet<Dialect>) -> Result<Mixed, String> {
    let parts = |dialect: Dialect| -> Vec<String> {
        let url = url(dialect.draft);
        match dialect.vocabularies {
            None => vec![url.to_owned()],
            Some(vocabularies) => {
                let folder = url.strip_suffix("schema").unwrap_or(url);
                vocabularies
                    .names()
                    .map(|name| format!("{folder}meta/{name}"))
                    .collect()
            }
        }
    };
    let dialects: BTreeMap<Dialect, Vec<String>> = dialects.iter().map(|dialect| (*dialect, parts(*dialect))).collect();
    let urls: Vec<String> = dialects.values().flatten().cloned().collect();
    let (mut schemas, found) = Compiler::for_metaschemas().compile_all(&urls)?;
    let mut found = found.into_iter();
    let mut roots = BTreeMap::new();
    for (dialect, parts) in dialects {
        let mut parts: Vec<Index> = found.by_ref().take(parts.len()).collect();
        if dialect.vocabularies.is_some() {
            let index = schemas.len() as Index;
            schemas.push(all_of(dialect.draft, index, parts));
            parts = vec![index];
        }
        roots.insert(dialect, parts.first().copied().unwrap_or_default());
    }
    Ok(Mixed { schemas, roots })
}

/// The metaschema that requires what each of `parts` does; it will stand at `index`.
fn all_of(draft: Draft, index: Index, parts: Vec<Index>) -> Schema {
    let mut rarest = Rarest::default();
    if draft >= Draft::V2020 {
        rarest.dynamic_anchor = Some("meta".to_owned());
        rarest.dynamic_anchors.insert("meta".to_owned(), index);
    }
    let rare = Rare {
        all_of: parts.into(),
        rarest: Some(Box::new(rarest)),
        ..Rare::default()
    };
    let compound = Compound {
        rare: Some(Box::new(rare)),
        ..Compound::default()
    };
    Schema {
        way: OWN.into(),
        draft,
        resource: index,
        compound: Some(Box::new(compound)),
        ..Schema::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draft_accepts_its_own_metaschema() {
        for draft in [Draft::V4, Draft::V6, Draft::V7, Draft::V2019, Draft::V2020] {
            assert!(compiled(draft).len() > 20, "{draft:?}");
            let own = document(url(draft)).unwrap();
            assert_eq!(check_whole(draft, &own), Ok(()), "{draft:?}");
            let wrong = Json::parse(br#"{"type": 1}"#).unwrap();
            assert!(check_whole(draft, &wrong).is_err(), "{draft:?}");
        }
    }
}
