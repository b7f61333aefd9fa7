//! The keywords that are about values of one type: objects, lists, strings, numbers.

use std::collections::HashMap;

use super::super::compiled::{Additional, Dependency, Index, Items};
use super::super::dialect::Draft;
use super::super::failure::{Failure, Kind, count, number, quote, quote_all};
use super::super::json::{Json, Members, Number};
use super::super::location::Location;
use super::{Check, Run, whole, whole_check};
use crate::sprig::regex;

/// How many bytes of a list's items are compared in one step.
const BYTES: usize = 32;

impl Check<'_, '_, '_> {
    pub(super) fn by_type(&mut self) {
        match self.value {
            Json::Object(map) => self.object(map),
            Json::Array(items) => self.array(items),
            Json::String(text) => self.string(text),
            Json::Number(n) => self.number(n),
            Json::Null | Json::Bool(_) => {}
        }
    }

    fn bounds(&mut self, names: [&str; 2], size: usize, limits: [Option<i64>; 2]) {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let [least, most] = limits;
        if let Some(least) = least.filter(|least| size < *least) {
            self.say(format!("{}: got {}, want {}", names[0], count(size), count(least)));
        }
        if let Some(most) = most.filter(|most| size > *most) {
            self.say(format!("{}: got {}, want {}", names[1], count(size), count(most)));
        }
    }

    fn object(&mut self, map: &Members) {
        let schema = self.schema;
        let missing = |wanted: &[Box<str>]| -> Vec<String> {
            let absent = wanted.iter().filter(|name| !map.contains_key(name));
            absent.map(|name| name.to_string()).collect()
        };
        self.bounds(["minProperties", "maxProperties"], map.len(), schema.properties_range);
        let absent = missing(&schema.required);
        match absent.as_slice() {
            [] => {}
            [one] => self.say(format!("missing property {}", quote(one))),
            many => self.say(format!("missing properties {}", quote_all(many))),
        }
        if self.done() {
            return;
        }
        for (name, dependency) in schema.dependencies.iter().filter(|(name, _)| map.contains_key(name)) {
            match dependency {
                Dependency::Names(names) => self.required_if(name, missing(names)),
                Dependency::Schema(target) => {
                    let result = self.itself(*target, "", false);
                    self.add(result);
                }
            }
        }
        let mut additional = Vec::new();
        self.run
            .spend(map.len().saturating_mul(schema.pattern_properties.len()));
        for (name, value) in map.iter() {
            if self.done() || self.run.is_over {
                return;
            }
            let mut evaluated = false;
            if let Some(target) = schema.property(name) {
                evaluated = true;
                let result = self.inner(target, value, name);
                self.add(result);
            }
            for (pattern, target) in &schema.pattern_properties {
                if regex::is_match(pattern, name) {
                    evaluated = true;
                    let result = self.inner(*target, value, name);
                    self.add(result);
                }
            }
            match &schema.additional_properties {
                Some(_) if evaluated => {}
                None => {}
                Some(Additional::Allowed(allowed)) => {
                    evaluated = true;
                    if !allowed {
                        additional.push(name);
                    }
                }
                Some(Additional::Schema(target)) => {
                    evaluated = true;
                    let result = self.inner(*target, value, name);
                    self.add(result);
                }
            }
            if evaluated {
                self.left.properties.remove(name);
            }
        }
        if !additional.is_empty() {
            self.say(format!("additional properties {} not allowed", quote_all(&additional)));
        }
        if let Some(target) = schema.property_names {
            for name in map.keys() {
                if let Err(failure) = self.run.key(target, name) {
                    let kind = Kind::Keyword(format!("invalid propertyName {}", quote(name)));
                    let location = self.run.location.clone();
                    let failure = Failure::new(location, kind, failure.top(), &self.run.kept);
                    self.found.push(failure);
                }
            }
        }
        for (_, target) in schema
            .dependent_schemas
            .iter()
            .filter(|(name, _)| map.contains_key(name))
        {
            let result = self.itself(*target, "", false);
            self.add(result);
        }
        for (name, names) in schema
            .dependent_required
            .iter()
            .filter(|(name, _)| map.contains_key(name))
        {
            self.required_if(name, missing(names));
        }
    }

    fn required_if(&mut self, name: &str, missing: Vec<String>) {
        if !missing.is_empty() {
            self.say(format!(
                "properties {} required, if {} exists",
                quote_all(&missing),
                quote(name)
            ));
        }
    }

    fn array(&mut self, items: &[Json]) {
        let schema = self.schema;
        self.bounds(["minItems", "maxItems"], items.len(), schema.items_range);
        if schema.unique_items
            && let Some((first, second)) = self.first_equal(items)
        {
            self.say(format!("items at {} and {} are equal", whole(first), whole(second)));
        }
        let mut evaluated = 0;
        match &schema.items {
            Items::None => {}
            Items::All(target) => {
                evaluated = items.len();
                self.each(items, 0, *target);
            }
            Items::First(targets) => {
                evaluated = targets.len().min(items.len());
                for (at, (item, target)) in items.iter().zip(targets).enumerate() {
                    let result = self.inner(*target, item, &at.to_string());
                    self.add(result);
                }
            }
        }
        match schema.additional_items {
            None => {}
            Some(Additional::Allowed(false)) if evaluated != items.len() => {
                let more = whole(items.len() - evaluated);
                self.say(format!("last {more} additionalItem(s) not allowed"));
            }
            Some(Additional::Allowed(_)) => {}
            Some(Additional::Schema(target)) => self.each(items, evaluated, target),
        }
        if let Some(target) = schema.contains {
            self.contains(items, target);
        }
    }

    /// The first item that equals an earlier one, after that.
    fn first_equal(&mut self, items: &[Json]) -> Option<(usize, usize)> {
        let mut known = HashMap::new();
        for (at, item) in items.iter().enumerate() {
            let mut normal = String::new();
            let equals = item.normal(&mut normal).is_some();
            if !self.run.spend(1 + normal.len() / BYTES) {
                return None;
            }
            if equals && let Some(earlier) = known.insert(normal, at) {
                return Some((earlier, at));
            }
        }
        None
    }

    fn each(&mut self, items: &[Json], from: usize, target: Index) {
        for (at, item) in items.iter().enumerate().skip(from) {
            let result = self.inner(target, item, &at.to_string());
            self.add(result);
        }
    }

    fn contains(&mut self, items: &[Json], target: Index) {
        let mut failures = Vec::new();
        let mut matched = Vec::new();
        for (at, item) in items.iter().enumerate() {
            match self.inner(target, item, &at.to_string()) {
                Err(failure) => failures.push(failure),
                Ok(()) => {
                    matched.push(at.to_string());
                    if self.schema.draft >= Draft::V2020 {
                        self.left.items.remove(&at);
                    }
                }
            }
        }
        let number = i64::try_from(matched.len()).unwrap_or(i64::MAX);
        let but = || format!("but matched {} items at {}", count(number), matched.join(" "));
        let [least, most] = self.schema.contains_range;
        match least {
            Some(least) if number < least => {
                let but = if matched.is_empty() {
                    "but none matched".to_owned()
                } else {
                    but()
                };
                let text = format!("min {} items required to match contains schema, {but}", count(least));
                self.say_because(&text, failures);
            }
            None if matched.is_empty() => self.say_because("no items match contains schema", failures),
            _ => {}
        }
        if let Some(most) = most.filter(|most| number > *most) {
            self.say(format!(
                "max {} items required to match contains schema, {}",
                count(most),
                but()
            ));
        }
    }

    fn string(&mut self, text: &str) {
        self.bounds(
            ["minLength", "maxLength"],
            text.chars().count(),
            self.schema.length_range,
        );
        if let Some(pattern) = &self.schema.pattern
            && !regex::is_match(pattern, text)
        {
            self.say(format!("{} does not match pattern {}", quote(text), quote(pattern)));
        }
    }

    fn number(&mut self, n: &Number) {
        for (name, limit, refused) in &self.schema.limits {
            if refused.contains(&n.compare(limit)) {
                self.say(format!(
                    "{name}: got {}, want {}",
                    number(n.to_f64()),
                    number(limit.to_f64())
                ));
            }
        }
        if let Some(step) = &self.schema.multiple_of
            && !n.is_multiple_of(step)
        {
            self.say(format!(
                "multipleOf: got {}, want {}",
                number(n.to_f64()),
                number(step.to_f64())
            ));
        }
    }
}

impl Run<'_> {
    /// Checks the name of a property, as a value of its own.
    fn key(&mut self, schema: Index, name: &str) -> Result<(), Failure> {
        let mut run = Run {
            schemas: self.schemas,
            embedded: None,
            location: Location::top(),
            steps: self.steps,
            kept: self.kept.clone(),
            is_over: false,
        };
        let result = whole_check(&mut run, schema, &Json::String(name.into()));
        self.steps = run.steps;
        self.is_over |= run.is_over;
        result
    }
}
