//! Everything that forbids a release is found here, before its first write.

use super::Run;
use super::render::{Prepared, baseline};
use crate::plan::grants;
use crate::plan::status::{Phase, Reason};

/// Problems listed in one condition; a chart that goes wrong often goes wrong everywhere.
const SHOWN: usize = 5;

impl Run<'_> {
    pub(super) async fn preflight(&self, prepared: &Prepared) -> Result<(), Phase> {
        let stalled = |reason, problems: Vec<String>| Phase::Stalled {
            reason,
            message: list(problems),
            recheck: false,
        };
        let problems: Vec<String> = prepared.desired.problems.iter().map(ToString::to_string).collect();
        if !problems.is_empty() {
            return Err(stalled(Reason::ManifestInvalid, problems));
        }
        // A cluster-scoped custom resource is made by whoever may do so in the whole cluster.
        if self.written.key.namespace.is_empty() {
            return Ok(());
        }
        let namespace = &prepared.identity.namespace;
        let allow = &self.unit.watch.allow;
        let nothing = grants::Baseline::default();
        let suspicious = prepared
            .desired
            .members
            .iter()
            .any(|member| grants::may_create(&member.id, namespace, &nothing, allow).is_err());
        if !suspicious {
            return Ok(());
        }
        let baseline = baseline(self.context, self.unit, &self.written, namespace).await;
        let refused: Vec<String> = prepared
            .desired
            .members
            .iter()
            .filter_map(|member| {
                let refused = grants::may_create(&member.id, namespace, &baseline, allow).err()?;
                Some(format!("{}: {refused}", member.source))
            })
            .collect();
        match refused.is_empty() {
            true => Ok(()),
            false => Err(stalled(Reason::Refused, refused)),
        }
    }
}

/// The first few of a list, and how many more there are.
pub(super) fn list(mut items: Vec<String>) -> String {
    let more = items.len().saturating_sub(SHOWN);
    items.truncate(SHOWN);
    let text = items.join("; ");
    match more {
        0 => text,
        more => format!("{text}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_lists_are_cut() {
        let items = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(super::list(items(2)), "0; 1");
        assert_eq!(super::list(items(8)), "0; 1; 2; 3; 4; and 3 more");
    }
}
