//! Checks a value against compiled schemas, keyword by keyword in the order of santhosh-tekuri/jsonschema v6.
//!
//! Objects are visited in the order of their keys, where that library takes Go's random order.

mod types;

use std::collections::BTreeSet;

use super::compiled::{self, Index, Schema};
use super::dialect::Draft;
use super::failure::{Failure, Kept, Kind, count, pointer, shown};
use super::json::Json;
use super::location::Location;

/// How many schemas one check may visit; other work counts as well.
const MAX_STEPS: usize = 2_000_000;
/// How many comparisons of short texts or numbers count as one step.
const COMPARISONS: usize = 16;
/// How deep schemas may nest while checking, references included.
const MAX_DEPTH: usize = 2_000;
/// How many bytes findings may take.
const MAX_FINDINGS: usize = 16 << 20;

/// Which schema checks the resource at a JSON pointer.
pub(super) type Embedded<'e> = dyn Fn(&str) -> Option<Index> + 'e;

/// Checks `value` against the schema at `root`.
///
/// # Errors
/// The finding that holds all others.
pub(super) fn validate(schemas: &[Schema], root: Index, value: &Json) -> Result<(), Failure> {
    start(schemas, root, None, value)
}

/// Checks the schema `value` against the metaschema at `root`. Where a metaschema asks for a schema like itself, what
/// stands there is checked by another one if `embedded` names one for its JSON pointer.
///
/// # Errors
/// The finding that holds all others.
pub(super) fn validate_schema(
    schemas: &[Schema],
    root: Index,
    embedded: &Embedded<'_>,
    value: &Json,
) -> Result<(), Failure> {
    start(schemas, root, Some(embedded), value)
}

fn start(schemas: &[Schema], root: Index, embedded: Option<&Embedded<'_>>, value: &Json) -> Result<(), Failure> {
    let mut run = Run {
        schemas,
        embedded,
        location: Location::top(),
        steps: 0,
        kept: Kept::default(),
        is_over: false,
    };
    whole_check(&mut run, root, value)
}

/// The check of a whole value.
fn whole_check(run: &mut Run<'_>, root: Index, value: &Json) -> Result<(), Failure> {
    let scope = Scope {
        schema: root,
        read_as: root,
        metaschema: root,
        value_id: 0,
        keyword: "",
        depth: 0,
        parent: None,
    };
    let result = run.check(value, &scope, false, false).map(drop);
    match run.is_over {
        true => {
            let text = format!(
                "the check takes more than {MAX_STEPS} steps or {MAX_DEPTH} levels, or finds more than \
                 {MAX_FINDINGS} bytes: simplify the schema"
            );
            Err(Failure::new(
                Location::top(),
                Kind::Keyword(text),
                Vec::new(),
                &run.kept,
            ))
        }
        false => result,
    }
}

struct Run<'s> {
    schemas: &'s [Schema],
    /// As for [`validate_schema`].
    embedded: Option<&'s Embedded<'s>>,
    location: Location,
    steps: usize,
    kept: Kept,
    /// A limit was reached: nothing else counts.
    is_over: bool,
}

/// The schemas on the way to the one being checked.
struct Scope<'p> {
    schema: Index,
    /// The metaschema that counts instead.
    read_as: Index,
    /// The metaschema of the resource that is being checked.
    metaschema: Index,
    /// Scopes that check the same value have the same number.
    value_id: usize,
    /// The keyword of a reference that led here.
    keyword: &'static str,
    depth: usize,
    parent: Option<&'p Scope<'p>>,
}

impl<'p> Scope<'p> {
    fn child(&'p self, schema: Index, keyword: &'static str, value_id: usize) -> Scope<'p> {
        Scope {
            schema,
            read_as: schema,
            metaschema: self.metaschema,
            value_id,
            keyword,
            depth: self.depth + 1,
            parent: Some(self),
        }
    }

    fn parents(&self) -> impl Iterator<Item = &Scope<'p>> {
        std::iter::successors(self.parent, |scope| scope.parent)
    }
}

/// What no schema has looked at yet, for `unevaluatedProperties` and `unevaluatedItems`.
#[derive(Default)]
struct Unevaluated {
    properties: BTreeSet<String>,
    items: BTreeSet<usize>,
}

impl Unevaluated {
    fn of(value: &Json, schema: &Schema, asked: bool) -> Self {
        let mut left = Unevaluated::default();
        match value {
            Json::Object(map)
                if !schema.all_properties_evaluated() && (asked || schema.unevaluated_properties.is_some()) =>
            {
                left.properties = map.keys().map(str::to_owned).collect();
            }
            Json::Array(items) => {
                let (all, first) = schema.items_evaluated();
                if !all && (asked || schema.unevaluated_items.is_some()) {
                    left.items = (first..items.len()).collect();
                }
            }
            _ => {}
        }
        left
    }

    fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.items.is_empty()
    }

    fn merge(&mut self, other: &Unevaluated) {
        self.properties.retain(|name| other.properties.contains(name));
        self.items.retain(|at| other.items.contains(at));
    }
}

/// The check of one value by one schema.
struct Check<'a, 's, 'p> {
    run: &'a mut Run<'s>,
    schema: &'s Schema,
    value: &'a Json,
    scope: &'a Scope<'p>,
    left: Unevaluated,
    found: Vec<Failure>,
    /// Only whether there is a finding matters.
    quiet: bool,
}

impl<'s> Run<'s> {
    fn schema(&self, index: Index) -> Option<&'s Schema> {
        self.schemas.get(index as usize)
    }

    /// The resource of a schema.
    fn resource(&self, index: Index) -> Option<&'s Schema> {
        self.schema(self.schema(index)?.resource)
    }

    /// Takes the metaschema of the resource that stands here for that of the one around it.
    fn change_metaschema(&self, scope: &mut Scope<'_>) {
        if let Some(embedded) = self.embedded
            && scope.schema == scope.metaschema
            && let Some(own) = embedded(&pointer(&self.location.parts()))
        {
            scope.read_as = own;
            scope.metaschema = own;
        }
    }

    fn failure(&self, kind: Kind) -> Failure {
        self.failure_of(kind, Vec::new())
    }

    fn failure_of(&self, kind: Kind, causes: Vec<Failure>) -> Failure {
        Failure::new(self.location.copy(), kind, causes, &self.kept)
    }

    /// Counts work; `false` if that is too much.
    fn spend(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(steps);
        self.is_over |= self.steps > MAX_STEPS || self.kept.bytes() > MAX_FINDINGS;
        !self.is_over
    }

    fn check(&mut self, value: &Json, scope: &Scope<'_>, asked: bool, quiet: bool) -> Result<Unevaluated, Failure> {
        let Some(schema) = self.schema(scope.read_as) else {
            return Ok(Unevaluated::default());
        };
        self.is_over |= scope.depth > MAX_DEPTH;
        if !self.spend(1 + schema.comparisons() / COMPARISONS) {
            return Err(self.failure(Kind::Group));
        }
        let left = Unevaluated::of(value, schema, asked);
        if let Some(accepts) = schema.boolean {
            return if accepts {
                Ok(left)
            } else {
                Err(self.failure(Kind::Keyword("false schema".to_owned())))
            };
        }
        let mut same_value = scope.parents().take_while(|parent| parent.value_id == scope.value_id);
        if let Some(earlier) = same_value.find(|parent| parent.schema == scope.schema) {
            let text = format!(
                "both {} and {} resolve to {} causing reference cycle",
                self.keyword_location(scope),
                self.keyword_location(earlier),
                go_template::quote::quote_go(compiled::location(self.schemas, scope.schema))
            );
            return Err(self.failure(Kind::Keyword(text)));
        }
        if let Some(text) = first_mismatch(schema, value) {
            return Err(self.failure(Kind::Keyword(text)));
        }
        let mut check = Check {
            run: self,
            schema,
            value,
            scope,
            left,
            found: Vec::new(),
            quiet,
        };
        if let Some(target) = schema.reference {
            let result = check.reference(target, "$ref");
            if schema.draft < Draft::V2019 {
                return result.map(|()| check.left);
            }
            check.add(result);
        }
        check.by_type();
        if check.found.is_empty() || !quiet {
            if schema.draft >= Draft::V2019 {
                check.dynamic_references();
            }
            check.combinations();
            if schema.draft >= Draft::V2019 {
                check.unevaluated();
            }
        }
        let Check { left, mut found, .. } = check;
        match found.len() {
            0 => Ok(left),
            1 => Err(found.remove(0)),
            _ => Err(self.failure_of(Kind::Group, found)),
        }
    }

    fn keyword_location(&self, scope: &Scope<'_>) -> String {
        let mut parts = Vec::new();
        let mut at = scope;
        while let Some(parent) = at.parent {
            if at.keyword.is_empty() {
                let place = |scope: &Scope<'_>| compiled::location(self.schemas, scope.schema);
                parts.push(place(at).get(place(parent).len()..).unwrap_or_default().to_owned());
            } else {
                parts.push(format!("/{}", at.keyword));
            }
            at = parent;
        }
        parts.into_iter().rev().collect()
    }
}

/// `type`, `const`, `enum`, `format`: each ends the check.
fn first_mismatch(schema: &Schema, value: &Json) -> Option<String> {
    let kind = value.kind();
    if !schema.types.is_empty() {
        let is_whole = matches!(value, Json::Number(n) if schema.types.contains("integer") && n.is_integer());
        if !schema.types.contains(kind) && !is_whole {
            return Some(format!(
                "got {kind}, want {}",
                schema.types.names().collect::<Vec<_>>().join(" or ")
            ));
        }
    }
    if let Some(wanted) = schema.constant.as_ref().filter(|wanted| *wanted != value) {
        return Some(match wanted {
            Json::Array(_) | Json::Object(_) => "'const' failed".to_owned(),
            scalar => format!("value must be {}", shown(scalar)),
        });
    }
    if let Some(wanted) = schema.enumeration.as_ref().filter(|wanted| !wanted.contains(value)) {
        if wanted
            .iter()
            .any(|option| matches!(option, Json::Array(_) | Json::Object(_)))
        {
            return Some("'enum' failed".to_owned());
        }
        return Some(match &**wanted {
            [one] => format!("value must be {}", shown(one)),
            many => format!(
                "value must be one of {}",
                many.iter().map(shown).collect::<Vec<_>>().join(", ")
            ),
        });
    }
    let (name, check) = schema.format.as_ref()?;
    let problem = check(value.text()?).err()?;
    Some(format!("{} is not valid {name}: {problem}", shown(value)))
}

impl Check<'_, '_, '_> {
    fn add(&mut self, result: Result<(), Failure>) {
        self.found.extend(result.err());
    }

    fn say(&mut self, text: String) {
        let failure = self.run.failure(Kind::Keyword(text));
        self.found.push(failure);
    }

    fn say_because(&mut self, text: &str, causes: Vec<Failure>) {
        let failure = self.run.failure_of(Kind::Keyword(text.to_owned()), causes);
        self.found.push(failure);
    }

    fn done(&self) -> bool {
        self.quiet && !self.found.is_empty()
    }

    /// The same value, by another schema.
    fn itself(&mut self, schema: Index, keyword: &'static str, quiet: bool) -> Result<(), Failure> {
        let mut scope = self.scope.child(schema, keyword, self.scope.value_id);
        self.run.change_metaschema(&mut scope);
        let asked = !self.left.is_empty();
        let other = self.run.check(self.value, &scope, asked, self.quiet || quiet)?;
        self.left.merge(&other);
        Ok(())
    }

    /// A value within this one.
    fn inner(&mut self, schema: Index, value: &Json, key: &str) -> Result<(), Failure> {
        let below = self.run.location.below(key);
        let here = std::mem::replace(&mut self.run.location, below);
        let mut scope = self.scope.child(schema, "", self.scope.value_id + 1);
        self.run.change_metaschema(&mut scope);
        let result = self.run.check(value, &scope, false, self.quiet);
        self.run.location = here;
        result.map(drop)
    }

    fn reference(&mut self, schema: Index, keyword: &'static str) -> Result<(), Failure> {
        self.itself(schema, keyword, false)
            .map_err(|failure| self.run.failure_of(Kind::Reference, failure.top()))
    }

    fn dynamic_references(&mut self) {
        let scope = self.scope;
        let scopes = || std::iter::once(scope).chain(scope.parents());
        if let Some(mut target) = self.schema.recursive_reference {
            let run = &self.run;
            if run.schema(target).is_some_and(|schema| schema.recursive_anchor) {
                // The outermost one counts.
                let recursive = |scope: &&Scope<'_>| {
                    let resource = run.resource(scope.schema);
                    resource.is_some_and(|resource| resource.recursive_anchor)
                };
                target = scopes().filter(recursive).last().map_or(target, |scope| scope.schema);
            }
            let result = self.reference(target, "$recursiveRef");
            self.add(result);
        }
        if let Some((target, anchor)) = &self.schema.dynamic_reference {
            let mut target = *target;
            let run = &self.run;
            let named = run.schema(target).and_then(|schema| schema.dynamic_anchor.as_ref());
            if !anchor.is_empty() && named == Some(anchor) {
                for scope in scopes() {
                    let resource = run.resource(scope.schema);
                    if let Some(found) = resource.and_then(|resource| resource.dynamic_anchors.get(anchor)) {
                        target = *found;
                    }
                }
            }
            let result = self.reference(target, "$dynamicRef");
            self.add(result);
        }
    }

    fn combinations(&mut self) {
        let schema = self.schema;
        if let Some(target) = schema.not
            && self.itself(target, "", true).is_ok()
        {
            self.say("'not' failed".to_owned());
        }
        let mut failures = Vec::new();
        for target in &schema.all_of {
            failures.extend(self.itself(*target, "", false).err());
            if self.quiet && !failures.is_empty() {
                break;
            }
        }
        if !failures.is_empty() {
            self.say_because("'allOf' failed", failures);
        }
        if !schema.any_of.is_empty() {
            let mut failures = Vec::new();
            let mut matched = false;
            for target in &schema.any_of {
                match self.itself(*target, "", false) {
                    Err(failure) => failures.push(failure),
                    Ok(()) => {
                        matched = true;
                        if self.left.is_empty() {
                            break;
                        }
                    }
                }
            }
            if !matched {
                self.say_because("'anyOf' failed", failures);
            }
        }
        if !schema.one_of.is_empty() {
            self.one_of();
        }
        if let Some(condition) = schema.condition {
            let branch = if self.itself(condition, "", true).is_ok() {
                schema.then
            } else {
                schema.otherwise
            };
            if let Some(target) = branch {
                let result = self.itself(target, "", false);
                self.add(result);
            }
        }
    }

    fn one_of(&mut self) {
        let mut failures = Vec::new();
        let mut matched = None;
        for (at, target) in self.schema.one_of.iter().enumerate() {
            match (self.itself(*target, "", matched.is_some()), matched) {
                (Err(failure), None) => failures.push(failure),
                (Err(_), Some(_)) => {}
                (Ok(()), None) => matched = Some(at),
                (Ok(()), Some(first)) => {
                    let text = format!("'oneOf' failed, subschemas {}, {} matched", whole(first), whole(at));
                    self.say(text);
                    break;
                }
            }
        }
        if matched.is_none() {
            self.say_because("'oneOf' failed, none matched", failures);
        }
    }

    fn unevaluated(&mut self) {
        if let (Json::Object(map), Some(target)) = (self.value, self.schema.unevaluated_properties) {
            for name in std::mem::take(&mut self.left.properties) {
                if let Some(value) = map.get(&name) {
                    let result = self.inner(target, value, &name);
                    self.add(result);
                }
            }
        }
        if let (Json::Array(items), Some(target)) = (self.value, self.schema.unevaluated_items) {
            for at in std::mem::take(&mut self.left.items) {
                if let Some(value) = items.get(at) {
                    let result = self.inner(target, value, &at.to_string());
                    self.add(result);
                }
            }
        }
    }
}

fn whole(n: usize) -> String {
    count(i64::try_from(n).unwrap_or(i64::MAX))
}
