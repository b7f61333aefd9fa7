//! Versions of JSON Schema, and what of a version a schema's own metaschema lets it use.

use super::json::Json;
use go_template::quote::quote_go;

/// A version of JSON Schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::chart) enum Draft {
    V4,
    V6,
    V7,
    V2019,
    #[default]
    V2020,
}

/// A draft, and which of its vocabularies count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dialect {
    pub draft: Draft,
    /// What a metaschema of the schema's own requires by `$vocabulary`.
    pub vocabularies: Option<Vocabularies>,
}

/// Names of vocabularies, a bit for each of [`Vocabularies::NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Vocabularies(u16);

/// How schemas stand below a keyword.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    One,
    List,
    Named,
}

impl Draft {
    /// The draft whose metaschema has this URL.
    pub fn from_url(url: &str) -> Option<Self> {
        let url = url.strip_suffix('#').unwrap_or(url);
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        Some(match rest.unwrap_or(url) {
            "json-schema.org/schema" | "json-schema.org/draft/2020-12/schema" => Draft::V2020,
            "json-schema.org/draft/2019-09/schema" => Draft::V2019,
            "json-schema.org/draft-07/schema" => Draft::V7,
            "json-schema.org/draft-06/schema" => Draft::V6,
            "json-schema.org/draft-04/schema" => Draft::V4,
            _ => return None,
        })
    }

    pub fn id_keyword(self) -> &'static str {
        if self == Draft::V4 { "id" } else { "$id" }
    }

    /// The schema's identifier without its fragment; empty if it has none.
    pub fn id(self, schema: &Json) -> &str {
        if self < Draft::V2019 && schema.get("$ref").is_some() {
            return "";
        }
        let id = schema.get(self.id_keyword()).and_then(Json::text).unwrap_or_default();
        id.split('#').next().unwrap_or_default()
    }

    /// The keywords that hold schemas: alone, in a list, or by name.
    pub fn positions(self) -> impl Iterator<Item = (&'static str, Shape)> {
        const POSITIONS: [(Draft, &str, Shape); 23] = [
            (Draft::V4, "definitions", Shape::Named),
            (Draft::V4, "not", Shape::One),
            (Draft::V4, "allOf", Shape::List),
            (Draft::V4, "anyOf", Shape::List),
            (Draft::V4, "oneOf", Shape::List),
            (Draft::V4, "properties", Shape::Named),
            (Draft::V4, "additionalProperties", Shape::One),
            (Draft::V4, "patternProperties", Shape::Named),
            (Draft::V4, "items", Shape::One),
            (Draft::V4, "items", Shape::List),
            (Draft::V4, "additionalItems", Shape::One),
            (Draft::V4, "dependencies", Shape::Named),
            (Draft::V6, "propertyNames", Shape::One),
            (Draft::V6, "contains", Shape::One),
            (Draft::V7, "if", Shape::One),
            (Draft::V7, "then", Shape::One),
            (Draft::V7, "else", Shape::One),
            (Draft::V2019, "$defs", Shape::Named),
            (Draft::V2019, "dependentSchemas", Shape::Named),
            (Draft::V2019, "unevaluatedProperties", Shape::One),
            (Draft::V2019, "unevaluatedItems", Shape::One),
            (Draft::V2019, "contentSchema", Shape::One),
            (Draft::V2020, "prefixItems", Shape::List),
        ];
        POSITIONS
            .into_iter()
            .filter(move |(since, ..)| *since <= self)
            .map(|(_, keyword, shape)| (keyword, shape))
    }
}

impl Dialect {
    /// Whether the keywords of a vocabulary count.
    pub fn has(self, vocabulary: &str) -> bool {
        if self.draft < Draft::V2019 || vocabulary == "core" {
            return true;
        }
        match self.vocabularies {
            Some(vocabularies) => vocabularies.names().any(|name| name == vocabulary),
            None => match vocabulary {
                "applicator" | "validation" => true,
                "unevaluated" => self.draft >= Draft::V2020,
                _ => false,
            },
        }
    }
}

impl Vocabularies {
    const NAMES: [&str; 9] = [
        "applicator",
        "content",
        "core",
        "format",
        "format-annotation",
        "format-assertion",
        "meta-data",
        "unevaluated",
        "validation",
    ];

    /// Those that the metaschema at `url` requires; `None` if it doesn't say.
    ///
    /// # Errors
    /// A vocabulary that the draft doesn't know.
    pub fn of(draft: Draft, url: &str, metaschema: &Json) -> Result<Option<Self>, String> {
        let prefix = match draft {
            Draft::V4 | Draft::V6 | Draft::V7 => return Ok(None),
            Draft::V2019 => "https://json-schema.org/draft/2019-09/vocab/",
            Draft::V2020 => "https://json-schema.org/draft/2020-12/vocab/",
        };
        let Some(Json::Object(named)) = metaschema.get("$vocabulary") else {
            return Ok(None);
        };
        let bit = |name: &str| Self::NAMES.iter().position(|known| *known == name).map(|at| 1 << at);
        let mut bits = bit("core").unwrap_or_default();
        for (vocabulary, _) in named.iter().filter(|(_, required)| **required == Json::Bool(true)) {
            let name = vocabulary.strip_prefix(prefix).filter(|name| is_of(draft, name));
            bits |= name
                .and_then(bit)
                .ok_or_else(|| format!("unsupported vocabulary {} in {}", quote_go(vocabulary), quote_go(url)))?;
        }
        Ok(Some(Vocabularies(bits)))
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let names = Self::NAMES.into_iter().enumerate();
        names.filter(move |(at, _)| self.0 & 1 << at != 0).map(|(_, name)| name)
    }
}

fn is_of(draft: Draft, vocabulary: &str) -> bool {
    match vocabulary {
        "format" => draft == Draft::V2019,
        "format-annotation" | "format-assertion" | "unevaluated" => draft == Draft::V2020,
        _ => true,
    }
}
