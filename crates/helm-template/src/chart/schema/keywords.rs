//! The keywords of a schema, read for the validator.

use std::cmp::Ordering;

use super::compile::Compiler;
use super::compiled::{self, Additional, Compound, Dependency, Index, Items, Rare, Rarest, Schema, Types};
use super::dialect::{Dialect, Draft};
use super::documents::Place;
use super::failure::escape;
use super::format;
use super::json::{Json, Keywords, Members, Number};
use super::urls::{encoded, percent_decode};
use crate::sprig::regex;
use go_template::quote::quote_go;

/// The keywords that [`Compound`] is made for, besides those of [`RARE`].
pub(super) const COMPOUND: [&str; 5] = ["additionalProperties", "enum", "items", "properties", "required"];

/// The keywords that [`Rare`] is made for, besides those of [`RAREST`].
pub(super) const RARE: [&str; 17] = [
    "allOf",
    "anyOf",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "not",
    "oneOf",
    "pattern",
    "uniqueItems",
];

/// The keywords that [`Rarest`] is made for. Dynamic anchors of a resource are the other reason for one.
pub(super) const RAREST: [&str; 21] = [
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "additionalItems",
    "const",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "multipleOf",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// How many digits the number of a `multipleOf` may have.
const MAX_DIGITS: usize = 10_000;

/// How the schemas below a keyword are found again when their turn comes.
pub(super) enum Below<'c, 'j> {
    /// By their places, which references lead to as well.
    Places(&'c Place),
    /// As they stand in the list of schemas.
    Values(&'c mut Vec<&'j Json>),
}

/// A schema's keywords.
pub(super) struct Object<'c, 'f, 'j> {
    pub compiler: &'c mut Compiler<'f>,
    pub index: Index,
    pub dialect: Dialect,
    pub map: &'j Members,
    pub keywords: Keywords,
    pub below: Below<'c, 'j>,
}

impl<'j> Object<'_, '_, 'j> {
    fn get(&self, keyword: &str) -> Option<&'j Json> {
        if !self.keywords.may_have(keyword) {
            return None;
        }
        self.map.get(keyword)
    }

    /// Reads them into `schema` and the parts of it, each of which only some schemas have.
    pub fn read(
        mut self,
        schema: &mut Schema,
        compound: &mut Compound,
        rare: &mut Rare,
        rarest: &mut Rarest,
    ) -> Result<(), String> {
        let draft = schema.draft;
        schema.reference = self.reference("$ref")?;
        // Older drafts ignore what stands beside a reference, but for keywords that came after draft 4: `const` is asserted,
        // of the others only what they refer to must be there.
        if draft >= Draft::V2019 || schema.reference.is_none() {
            if self.dialect.has("applicator") {
                rare.all_of = self.list("allOf").into();
                rare.any_of = self.list("anyOf").into();
                rare.one_of = self.list("oneOf").into();
                rare.not = self.one("not");
                if draft < Draft::V2020 {
                    self.read_items(compound, rarest);
                }
                self.read_properties(compound, rarest)?;
            }
            if self.dialect.has("validation") {
                self.read_assertions(schema, compound, rare)?;
                let step = self.number("multipleOf");
                if step.as_ref().is_some_and(|step| step.digits() > MAX_DIGITS) {
                    return Err(format!("the schema has a multipleOf of more than {MAX_DIGITS} digits"));
                }
                rarest.multiple_of = step;
            }
            if self.asserts_formats()
                && let Some(name) = self.text("format")
            {
                rare.format = format::find(name).map(|check| (name.into(), check));
            }
        }
        self.read_later(draft, rarest)?;
        if draft >= Draft::V2020 && self.dialect.has("applicator") {
            self.read_items_2020(compound, rarest);
        }
        Ok(())
    }

    /// Schemas of schemas do, and those of drafts in which no vocabulary is needed for it.
    fn asserts_formats(&self) -> bool {
        self.compiler.is_meta
            || match self.dialect.draft {
                Draft::V2020 => self.dialect.has("format-assertion"),
                _ => self.dialect.has("format"),
            }
    }

    /// The keywords that came after draft 4.
    fn read_later(&mut self, draft: Draft, rarest: &mut Rarest) -> Result<(), String> {
        let (applies, asserts) = (self.dialect.has("applicator"), self.dialect.has("validation"));
        if draft >= Draft::V6 {
            if applies {
                rarest.contains = self.one("contains");
                rarest.property_names = self.one("propertyNames");
            }
            if asserts {
                rarest.constant = self.get("const").cloned();
            }
        }
        if draft >= Draft::V7 && applies {
            rarest.condition = self.one("if");
            // The branch that is never taken isn't a schema.
            if rarest.condition.is_some() {
                let only = self.get("if");
                if only != Some(&Json::Bool(false)) {
                    rarest.then = self.one("then");
                }
                if only != Some(&Json::Bool(true)) {
                    rarest.otherwise = self.one("else");
                }
            }
        }
        if draft >= Draft::V2019 {
            rarest.recursive_reference = self.reference("$recursiveRef")?;
            rarest.recursive_anchor = self.is_true("$recursiveAnchor");
            if asserts {
                if rarest.contains.is_some() {
                    rarest.contains_range = [self.whole("minContains"), self.whole("maxContains")];
                }
                for (name, value) in self.object("dependentRequired") {
                    if let Json::Array(names) = value {
                        rarest.dependent_required.push((name.to_owned(), texts(names)));
                    }
                }
            }
            if applies {
                rarest.dependent_schemas = self.named("dependentSchemas");
            }
            let vocabulary = if draft >= Draft::V2020 {
                "unevaluated"
            } else {
                "applicator"
            };
            if self.dialect.has(vocabulary) {
                rarest.unevaluated_items = self.one("unevaluatedItems");
                rarest.unevaluated_properties = self.one("unevaluatedProperties");
            }
        }
        if draft >= Draft::V2020 {
            if let Some(target) = self.reference("$dynamicRef")? {
                let text = self.text("$dynamicRef").unwrap_or_default();
                let fragment = text.split_once('#').map_or("", |(_, fragment)| fragment);
                let fragment = percent_decode(fragment).unwrap_or_default();
                let anchor = Some(fragment).filter(|fragment| !fragment.starts_with('/'));
                rarest.dynamic_reference = Some((target, anchor.unwrap_or_default()));
            }
            rarest.dynamic_anchor = self.text("$dynamicAnchor").map(str::to_owned);
        }
        Ok(())
    }

    fn read_items(&mut self, compound: &mut Compound, rarest: &mut Rarest) {
        if matches!(self.get("items"), Some(Json::Array(_))) {
            compound.items = Items::First(self.list("items").into());
            rarest.additional_items = self.additional("additionalItems");
        } else if let Some(target) = self.one("items") {
            compound.items = Items::All(target);
        }
    }

    fn read_items_2020(&mut self, compound: &mut Compound, rarest: &mut Rarest) {
        let first = self.list("prefixItems");
        match self.one("items") {
            Some(target) if first.is_empty() => compound.items = Items::All(target),
            rest => {
                compound.items = Items::First(first.into());
                rarest.additional_items = rest.map(Additional::Schema);
            }
        }
    }

    fn read_properties(&mut self, compound: &mut Compound, rarest: &mut Rarest) -> Result<(), String> {
        compound.properties = self
            .named("properties")
            .into_iter()
            .map(|(name, target)| (name.into(), target))
            .collect();
        rarest.pattern_properties = self.named("patternProperties");
        for (pattern, _) in &rarest.pattern_properties {
            self.check_pattern("patternProperties", pattern)?;
        }
        compound.additional_properties = self.additional("additionalProperties");
        for (name, value) in self.object("dependencies") {
            let dependency = match value {
                Json::Array(names) => Dependency::Names(texts(names)),
                _ => Dependency::Schema(self.at(&["dependencies", name], value)),
            };
            rarest.dependencies.push((name.to_owned(), dependency));
        }
        Ok(())
    }

    fn read_assertions(&mut self, schema: &mut Schema, compound: &mut Compound, rare: &mut Rare) -> Result<(), String> {
        schema.types = match self.get("type") {
            Some(Json::Array(many)) => Types::of(many.iter().filter_map(Json::text)),
            one => Types::of(one.and_then(Json::text).into_iter()),
        };
        if let Some(Json::Array(options)) = self.get("enum") {
            compound.enumeration = Some(options.clone());
        }
        let (mut limits, mut exclusive) = (Vec::new(), Vec::new());
        for (name, strict, refused) in [
            ("minimum", "exclusiveMinimum", &[Ordering::Less, Ordering::Equal]),
            ("maximum", "exclusiveMaximum", &[Ordering::Greater, Ordering::Equal]),
        ] {
            let [refused_first, _] = refused;
            let weakly = std::slice::from_ref(refused_first);
            // Draft 4: the strict keyword is a flag of the other.
            if self.is_true(strict) {
                exclusive.extend(self.number(name).map(|limit| (strict, limit, &refused[..])));
            } else {
                limits.extend(self.number(name).map(|limit| (name, limit, weakly)));
                exclusive.extend(self.number(strict).map(|limit| (strict, limit, &refused[..])));
            }
        }
        limits.extend(exclusive);
        rare.limits = limits.into();
        rare.length_range = [self.whole("minLength"), self.whole("maxLength")];
        rare.items_range = [self.whole("minItems"), self.whole("maxItems")];
        rare.properties_range = [self.whole("minProperties"), self.whole("maxProperties")];
        rare.unique_items = self.is_true("uniqueItems");
        if let Some(Json::Array(names)) = self.get("required") {
            compound.required = texts(names);
        }
        if let Some(pattern) = self.text("pattern") {
            self.check_pattern("pattern", pattern)?;
            rare.pattern = Some(pattern.into());
        }
        Ok(())
    }

    fn check_pattern(&self, keyword: &str, pattern: &str) -> Result<(), String> {
        regex::check(pattern.as_bytes()).map_err(|problem| {
            format!(
                "invalid regex {} at {}: {problem}",
                quote_go(pattern),
                quote_go(format!(
                    "{}/{keyword}",
                    compiled::location(&self.compiler.schemas, self.index)
                ))
            )
        })
    }

    /// The index of the schema `value`, which stands below a keyword; in a list or by name, if there is another part.
    fn at(&mut self, path: &[&str], value: &'j Json) -> Index {
        let mut way = String::new();
        for part in path {
            way.push('/');
            way.push_str(&escape(part));
        }
        let above = Some(self.index);
        match &mut self.below {
            Below::Places(place) => {
                let place = Place::new(&place.url, &format!("{}{way}", place.pointer));
                self.compiler.enqueue_as(place, |_| (above, encoded(&way)))
            }
            Below::Values(found) => {
                found.push(value);
                self.compiler.push(above, encoded(&way))
            }
        }
    }

    fn one(&mut self, key: &str) -> Option<Index> {
        self.get(key).map(|value| self.at(&[key], value))
    }

    fn list(&mut self, key: &str) -> Vec<Index> {
        match self.get(key) {
            Some(Json::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(at, item)| self.at(&[key, &at.to_string()], item))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn named(&mut self, key: &str) -> Vec<(String, Index)> {
        match self.get(key) {
            Some(Json::Object(map)) => map
                .iter()
                .map(|(name, value)| (name.to_owned(), self.at(&[key, name], value)))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn object(&self, key: &str) -> impl Iterator<Item = (&'j str, &'j Json)> + use<'j> {
        match self.get(key) {
            Some(Json::Object(map)) => Some(map.iter()),
            _ => None,
        }
        .into_iter()
        .flatten()
    }

    fn additional(&mut self, key: &str) -> Option<Additional> {
        match self.get(key)? {
            Json::Bool(allowed) => Some(Additional::Allowed(*allowed)),
            _ => self.one(key).map(Additional::Schema),
        }
    }

    fn reference(&mut self, key: &str) -> Result<Option<Index>, String> {
        let Some(text) = self.text(key).map(str::to_owned) else {
            return Ok(None);
        };
        let Below::Places(from) = self.below else {
            return Ok(None);
        };
        let place = self.compiler.resolve(from, &text)?;
        Ok(Some(self.compiler.enqueue(place)))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Json::text)
    }

    fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some(&Json::Bool(true))
    }

    fn number(&self, key: &str) -> Option<Number> {
        match self.get(key) {
            Some(Json::Number(n)) if n.is_rational() => Some(n.clone()),
            _ => None,
        }
    }

    fn whole(&self, key: &str) -> Option<i64> {
        self.number(key)?.to_count()
    }
}

fn texts(items: &[Json]) -> Box<[Box<str>]> {
    items.iter().filter_map(Json::text).map(Box::from).collect()
}
