//! A compiled schema: its keywords, read for the validator.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::dialect::Draft;
use super::format::Check;
use super::json::{Json, Number};

/// The place of a schema among those of a document.
pub(super) type Index = u32;

/// One compiled schema. Other schemas stand in it as indexes.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// The schema that this one was found in.
    pub above: Option<Index>,
    /// The way from there: a JSON pointer; or URL and pointer of one that was found by a reference.
    pub way: Box<str>,
    pub draft: Draft,
    /// The schema that is this one's resource: that with the `$id`.
    pub resource: Index,
    /// `true` and `false`, and `{}`.
    pub boolean: Option<bool>,
    pub reference: Option<Index>,
    pub types: Types,
    /// `None`: there is nothing but a type or a reference.
    pub compound: Option<Box<Compound>>,
}

/// Types that a value may have, a bit for each of [`Types::ORDER`].
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Types(u8);

/// What schemas of objects and lists have, and enumerations; and where the rest is.
#[derive(Debug, Default)]
pub(super) struct Compound {
    pub enumeration: Option<Box<[Json]>>,
    pub required: Box<[Box<str>]>,
    /// Sorted by name.
    pub properties: Box<[(Box<str>, Index)]>,
    pub additional_properties: Option<Additional>,
    pub items: Items,
    /// `None`: all that most schemas don't have is as by default.
    pub rare: Option<Box<Rare>>,
}

/// What most schemas don't have.
#[derive(Debug, Default)]
pub(super) struct Rare {
    pub format: Option<(Box<str>, Check)>,
    pub not: Option<Index>,
    pub all_of: Box<[Index]>,
    pub any_of: Box<[Index]>,
    pub one_of: Box<[Index]>,
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
    pub recursive_reference: Option<Index>,
    pub recursive_anchor: bool,
    pub dynamic_reference: Option<(Index, String)>,
    pub dynamic_anchor: Option<String>,
    pub dynamic_anchors: BTreeMap<String, Index>,
    pub constant: Option<Json>,
    pub condition: Option<Index>,
    pub then: Option<Index>,
    pub otherwise: Option<Index>,
    pub pattern_properties: Vec<(String, Index)>,
    pub property_names: Option<Index>,
    pub dependencies: Vec<(String, Dependency)>,
    pub dependent_required: Vec<(String, Box<[Box<str>]>)>,
    pub dependent_schemas: Vec<(String, Index)>,
    pub unevaluated_properties: Option<Index>,
    pub additional_items: Option<Additional>,
    pub contains: Option<Index>,
    pub contains_range: [Option<i64>; 2],
    pub unevaluated_items: Option<Index>,
    pub multiple_of: Option<Number>,
}

static NOTHING_COMPOUND: LazyLock<Compound> = LazyLock::new(Compound::default);
static NOTHING_RARE: LazyLock<Rare> = LazyLock::new(Rare::default);
static NOTHING_RAREST: LazyLock<Rarest> = LazyLock::new(Rarest::default);

/// `additionalProperties`, `additionalItems` and what takes the latter's place.
#[derive(Debug)]
pub(super) enum Additional {
    Allowed(bool),
    Schema(Index),
}

/// One entry of `dependencies`.
#[derive(Debug)]
pub(super) enum Dependency {
    Names(Box<[Box<str>]>),
    Schema(Index),
}

/// Schemas of a list's items.
#[derive(Debug, Default)]
pub(super) enum Items {
    #[default]
    None,
    All(Index),
    /// Of the first items, one each.
    First(Box<[Index]>),
}

impl std::ops::Deref for Schema {
    type Target = Compound;

    fn deref(&self) -> &Compound {
        self.compound.as_deref().unwrap_or_else(|| &NOTHING_COMPOUND)
    }
}

impl std::ops::Deref for Compound {
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
pub(super) fn location(schemas: &[Schema], index: Index) -> String {
    let schema = |index: Index| schemas.get(index as usize);
    let ways: Vec<&str> = std::iter::successors(schema(index), |found| found.above.and_then(schema))
        .map(|schema| &*schema.way)
        .collect();
    ways.into_iter().rev().collect()
}

impl Types {
    /// In the order in which reports name them.
    const ORDER: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

    /// Those of the names that are types'.
    pub fn of<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let bit = |name| Self::ORDER.iter().position(|known| *known == name);
        Types(names.filter_map(bit).fold(0, |types, at| types | 1 << at))
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let names = Self::ORDER.into_iter().enumerate();
        names.filter(move |(at, _)| self.0 & 1 << at != 0).map(|(_, name)| name)
    }
}

impl Schema {
    /// The schema of a property.
    pub fn property(&self, name: &str) -> Option<Index> {
        let at = self
            .properties
            .binary_search_by(|(known, _)| (**known).cmp(name))
            .ok()?;
        self.properties.get(at).map(|(_, target)| *target)
    }

    /// About how many comparisons a value takes, besides those that its own size tells.
    pub fn comparisons(&self) -> usize {
        let options = self.enumeration.as_ref().map_or(0, |options| options.len());
        let named = self.dependencies.len() + self.dependent_required.len() + self.dependent_schemas.len();
        options + self.required.len() + named
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
