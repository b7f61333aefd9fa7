//! The values that the templates of a chart see, without a render.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Engine, Error, Input, ReleaseObject, on_large_stack, user_map};
use crate::chart::{dependencies, values};
use crate::helm::Context;
use crate::helm::functions::convert::to_json_value;
use go_template::value::Value;

impl Engine {
    /// Merges the user's values over the defaults of the chart and of its enabled dependencies, as a render does.
    ///
    /// # Errors
    /// Values that a chart cannot have: no mapping, or none where those of a dependency belong.
    pub fn effective_values(&self, user: Json) -> Result<Json, Error> {
        on_large_stack(|| {
            let input = Input::new(ReleaseObject::install("", ""), user);
            let user = user_map(&input)?;
            let mut warnings = Vec::new();
            let node = dependencies::process(&self.chart, &user, &mut warnings)?;
            let values = values::coalesce(&node, &user, &mut warnings)?;
            let context = Context::new(Arc::clone(&self.sets.parsed(&node)?.go), &self.environment(&input));
            to_json_value(&context, &Value::Map(values))
                .map_err(|error| Error::Values(crate::chart::Error::Values(error)))
        })
    }
}
