//! Places of fields in a rendered object.

use serde_json::Value;

use crate::identity::applyset;

/// One step on the way to a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldStep {
    /// A field of a mapping.
    Field(String),
    /// An item of a list, by its index.
    Item(usize),
}

/// The place of a field in one rendered object. The order puts a field before what is below it, and items by index.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<FieldStep>);

impl FieldPath {
    /// The path of a child.
    #[must_use]
    pub fn then(&self, step: FieldStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        FieldPath(steps)
    }

    /// True if this is the field, or the other is below it.
    pub fn covers(&self, other: &FieldPath) -> bool {
        other.0.starts_with(&self.0)
    }

    /// True for a mark by which the operator knows its members, and for the reference to the custom resource.
    pub fn is_mark(&self) -> bool {
        let field = |index: usize| match self.0.get(index) {
            Some(FieldStep::Field(name)) => name.as_str(),
            _ => "",
        };
        match (field(0), field(1)) {
            ("metadata", "labels" | "annotations") => applyset::MARKS.contains(&field(2)),
            ("metadata", "ownerReferences") => true,
            _ => false,
        }
    }

    /// The value at this place.
    pub fn get<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(object, |value, step| match step {
            FieldStep::Field(name) => value.get(name),
            FieldStep::Item(index) => value.get(*index),
        })
    }
}

/// The object without these fields, and without mappings and lists that become empty by that.
#[must_use]
pub fn without(object: &Value, paths: &[FieldPath]) -> Value {
    let mut paths: Vec<&FieldPath> = paths.iter().collect();
    paths.sort();
    // A field before what is below it.
    paths.dedup_by(|path, kept| kept.covers(path));
    let mut rest = object.clone();
    // The last first, so that indices stay true.
    for path in paths.into_iter().rev() {
        remove(&mut rest, &path.0);
    }
    rest
}

/// Removes a field. True if nothing is left of the value around it.
fn remove(value: &mut Value, steps: &[FieldStep]) -> bool {
    let Some((step, below)) = steps.split_first() else {
        return true;
    };
    match (value, step) {
        (Value::Object(fields), FieldStep::Field(name)) => {
            if fields.get_mut(name).is_some_and(|child| remove(child, below)) {
                fields.remove(name);
                return fields.is_empty();
            }
            false
        }
        (Value::Array(items), FieldStep::Item(index)) => {
            if items.get_mut(*index).is_some_and(|child| remove(child, below)) {
                items.remove(*index);
                return items.is_empty();
            }
            false
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    /// A path as a list of names and indices.
    pub(crate) fn path(steps: &Value) -> FieldPath {
        let step = |step: &Value| match step.as_u64() {
            Some(index) => FieldStep::Item(index as usize),
            None => FieldStep::Field(step.as_str().unwrap().to_owned()),
        };
        FieldPath(steps.as_array().unwrap().iter().map(step).collect())
    }

    #[test]
    fn fields_are_removed_with_what_becomes_empty() {
        for (object, paths, expected) in table::<(Value, Vec<Value>, Value)>("differences", "without") {
            let paths: Vec<FieldPath> = paths.iter().map(path).collect();
            assert_eq!(without(&object, &paths), expected, "{paths:?}");
        }
    }
}
