//! A compiled schema: its keywords, read for the validator.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::documents::Draft;
use super::format::Check;
use super::json::{Json, Number};

/// One compiled schema. Other schemas stand in it as indexes.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// The schema that this one was found in.
    pub above: Option<usize>,
    /// The way from there: a JSON pointer; or URL and pointer of one that was found by a reference.
    pub way: Box<str>,
    pub draft: Draft,
    /// The schema that is this one's resource: that with the `$id`.
    pub resource: usize,
    /// `true` and `false`, and `{}`.
    pub boolean: Option<bool>,
    pub reference: Option<usize>,
    pub types: Box<[&'static str]>,
    pub enumeration: Option<Box<[Json]>>,
    pub required: Box<[String]>,
    /// Sorted by name.
    pub properties: Box<[(Box<str>, usize)]>,
    pub additional_properties: Option<Additional>,
    pub items: Items,
    /// `None`: all that most schemas don't have is as by default.
    pub rare: Option<Box<Rare>>,
}

/// What most schemas don't have.
#[derive(Debug, Default)]
pub(super) struct Rare {
    pub format: Option<(Box<str>, Check)>,
    pub not: Option<usize>,
    pub all_of: Box<[usize]>,
    pub any_of: Box<[usize]>,
    pub one_of: Box<[usize]>,
    pub properties_range: [Option<i64>; 2],
    pub items_range: [Option<i64>; 2],
    pub length_range: [Option<i64>; 2],
    pub unique_items: bool,
    pub pattern: Option<Box<str>>,
    /// Keyword, limit, and how a number may not compare to it.
    pub limits: Box<[(&'static str, Number, &'static [Ordering])]>,
    /// `None`: as by default.
    pub rarest: Option<Box<Rarest>>,
}

/// What hardly any schema has.
#[derive(Debug, Default)]
pub(super) struct Rarest {
    pub recursive_reference: Option<usize>,
    pub recursive_anchor: bool,
    pub dynamic_reference: Option<(usize, String)>,
    pub dynamic_anchor: Option<String>,
    pub dynamic_anchors: BTreeMap<String, usize>,
    pub constant: Option<Json>,
    pub condition: Option<usize>,
    pub then: Option<usize>,
    pub otherwise: Option<usize>,
    pub pattern_properties: Vec<(String, usize)>,
    pub property_names: Option<usize>,
    pub dependencies: Vec<(String, Dependency)>,
    pub dependent_required: Vec<(String, Vec<String>)>,
    pub dependent_schemas: Vec<(String, usize)>,
    pub unevaluated_properties: Option<usize>,
    pub additional_items: Option<Additional>,
    pub contains: Option<usize>,
    pub contains_range: [Option<i64>; 2],
    pub unevaluated_items: Option<usize>,
    pub multiple_of: Option<Number>,
}

static NOTHING_RARE: LazyLock<Rare> = LazyLock::new(Rare::default);
static NOTHING_RAREST: LazyLock<Rarest> = LazyLock::new(Rarest::default);

/// `additionalProperties`, `additionalItems` and what takes the latter's place.
#[derive(Debug)]
pub(super) enum Additional {
    Allowed(bool),
    Schema(usize),
}

/// One entry of `dependencies`.
#[derive(Debug)]
pub(super) enum Dependency {
    Names(Vec<String>),
    Schema(usize),
}

/// Schemas of a list's items.
#[derive(Debug, Default)]
pub(super) enum Items {
    #[default]
    None,
    All(usize),
    /// Of the first items, one each.
    First(Vec<usize>),
}

impl std::ops::Deref for Schema {
    type Target = Rare;

    fn deref(&self) -> &Rare {
        self.rare.as_deref().unwrap_or_else(|| &NOTHING_RARE)
    }
}

impl std::ops::Deref for Rare {
    type Target = Rarest;

    fn deref(&self) -> &Rarest {
        self.rarest.as_deref().unwrap_or_else(|| &NOTHING_RAREST)
    }
}

/// URL and JSON pointer of a schema.
pub(super) fn location(schemas: &[Schema], index: usize) -> String {
    let schema = |index: usize| schemas.get(index);
    let ways: Vec<&str> = std::iter::successors(schema(index), |found| found.above.and_then(schema))
        .map(|schema| &*schema.way)
        .collect();
    ways.into_iter().rev().collect()
}

impl Schema {
    /// The schema of a property.
    pub fn property(&self, name: &str) -> Option<usize> {
        let at = self
            .properties
            .binary_search_by(|(known, _)| (**known).cmp(name))
            .ok()?;
        self.properties.get(at).map(|(_, target)| *target)
    }

    pub fn all_properties_evaluated(&self) -> bool {
        self.additional_properties.is_some()
    }

    /// Whether all items are evaluated, and if not, how many at the list's head.
    pub fn items_evaluated(&self) -> (bool, usize) {
        let first = match &self.items {
            Items::First(targets) => targets.len(),
            _ => 0,
        };
        (
            self.additional_items.is_some() || matches!(self.items, Items::All(_)),
            first,
        )
    }
}
