//! Reads the CustomResourceDefinitions of a chart and of its dependencies.

use std::cmp::Ordering;

use serde_json::Value;

use chartwright_core::crds::chart::{ChartCrd, CrdClaim};
use chartwright_core::identity::GroupKind;
use helm_template::chart::Chart;

/// The definitions of a chart.
#[derive(Default)]
pub struct Definitions {
    pub found: Vec<ChartDefinition>,
    /// Files that are no definitions.
    pub problems: Vec<String>,
}

/// A definition as the chart has it.
pub struct ChartDefinition {
    /// Its file in the chart.
    pub source: String,
    /// Name and version of the chart or dependency that has it.
    pub chart: String,
    pub name: String,
    /// The version of `apiextensions.k8s.io`.
    pub version: String,
    pub object: Value,
}

impl Definitions {
    /// Reads the `crds/` folders.
    pub fn of(chart: &Chart) -> Self {
        let mut definitions = Definitions::default();
        definitions.add_chart(chart, "");
        definitions
    }

    fn add_chart(&mut self, chart: &Chart, folder: &str) {
        for dependency in &chart.dependencies {
            self.add_chart(dependency, &format!("{folder}charts/{}/", dependency.metadata.name));
        }
        let about = format!("{} {}", chart.metadata.name, chart.metadata.version);
        for file in &chart.crds {
            let source = format!("{folder}{}", file.name);
            let text = String::from_utf8_lossy(&file.data);
            match go_yaml::documents(&text) {
                Ok(documents) => documents
                    .iter()
                    .for_each(|text| self.add_document(&source, &about, text)),
                Err(error) => self.problems.push(format!("{source}: {error}")),
            }
        }
    }

    fn add_document(&mut self, source: &str, chart: &str, text: &str) {
        let object = match go_yaml::to_json(text.as_bytes()) {
            Ok(Value::Null) => return,
            Ok(object) => object,
            Err(error) => return self.problems.push(format!("{source}: {error}")),
        };
        let Some((group_kind, version)) = GroupKind::of(&object) else {
            return self.problems.push(format!("{source}: not a Kubernetes object"));
        };
        if group_kind != crd_kind() {
            return self.problems.push(format!(
                "{source}: {group_kind} is no CustomResourceDefinition; crds/ is for those only"
            ));
        }
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return self
                .problems
                .push(format!("{source}: a CustomResourceDefinition has no metadata.name"));
        };
        self.found.push(ChartDefinition {
            source: source.to_owned(),
            chart: chart.to_owned(),
            name: name.to_owned(),
            version,
            object,
        });
    }

    /// Prepares the definitions. Of several with one name, the newest counts, or the first if their versions can't be compared; the
    /// others are problems.
    pub fn into_chart_crds(self) -> (Vec<ChartCrd>, Vec<String>) {
        let mut problems = self.problems;
        let mut crds: Vec<ChartCrd> = Vec::new();
        for ChartDefinition {
            source, chart, object, ..
        } in self.found
        {
            let crd = ChartCrd::new(&source, &chart, object);
            let Some(known) = crds.iter_mut().find(|known| known.claim.name == crd.claim.name) else {
                crds.push(crd);
                continue;
            };
            match crd.claim.marks.compare(&known.claim.marks) {
                _ if crd.claim.digest == known.claim.digest => {}
                Some(Ordering::Greater) => *known = crd,
                Some(Ordering::Less) => {}
                _ => problems.push(twice(&crd.claim, &known.claim)),
            }
        }
        (crds, problems)
    }
}

fn twice(claim: &CrdClaim, known: &CrdClaim) -> String {
    let (name, used) = (&claim.name, &known.source);
    let source = &claim.source;
    format!(
        "{source}: CustomResourceDefinition {name} is ignored: {used} has another one of this name; remove one of them"
    )
}

/// The kind of definitions.
pub fn crd_kind() -> GroupKind {
    GroupKind::new("apiextensions.k8s.io", "CustomResourceDefinition")
}

#[cfg(test)]
mod tests {
    use super::*;
    use helm_template::chart::{File, Metadata};
    use serde_json::json;

    fn definition(name: &str, version: &str, scope: &str) -> String {
        let metadata = json!({"name": name, "annotations": {"x.test/version": version}});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata,
            "spec": {"scope": scope},
        });
        crd.to_string()
    }

    fn chart(name: &str, files: &[(&str, String)], dependencies: Vec<Chart>) -> Chart {
        let file = |(name, text): &(&str, String)| File {
            name: (*name).to_owned(),
            data: text.as_str().into(),
        };
        let mut chart = Chart::default();
        chart.metadata = Metadata {
            name: name.into(),
            version: "1.0.0".into(),
            ..Metadata::default()
        };
        chart.crds = files.iter().map(file).collect();
        chart.dependencies = dependencies;
        chart
    }

    #[test]
    fn definitions_of_dependencies_count_and_other_files_are_problems() {
        let mixed = format!(
            "# nothing\n---\n{}\n---\n{{apiVersion: v1, kind: ConfigMap}}\n---\n{{no: kind}}\n",
            definition("b", "", "")
        );
        let sub = chart("sub", &[("crds/a.yaml", definition("a", "", ""))], vec![]);
        let files = [
            ("crds/mixed.yaml", mixed),
            ("crds/nameless.yaml", definition("", "", "")),
            ("crds/broken.yaml", "a: [".to_owned()),
        ];
        let definitions = Definitions::of(&chart("app", &files, vec![sub]));
        let found: Vec<_> = definitions
            .found
            .iter()
            .map(|found| (found.name.as_str(), found.source.as_str(), found.chart.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("a", "charts/sub/crds/a.yaml", "sub 1.0.0"),
                ("b", "crds/mixed.yaml", "app 1.0.0")
            ]
        );
        let expected = [
            "crds/mixed.yaml: ConfigMap is no CustomResourceDefinition",
            "crds/mixed.yaml: not a Kubernetes object",
            "crds/nameless.yaml: a CustomResourceDefinition has no metadata.name",
            "crds/broken.yaml: ",
        ];
        let problems = definitions.problems;
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        let fits = problems
            .iter()
            .zip(expected)
            .all(|(problem, start)| problem.starts_with(start));
        assert!(fits, "{problems:?}");
    }

    #[test]
    fn of_two_definitions_with_one_name_the_newer_one_counts() {
        for (first, second, expected, problems) in [
            (("1.0", "A"), ("2.0", "B"), "B", 0),
            (("2.0", "A"), ("1.0", "B"), "A", 0),
            (("1.0", "A"), ("1.0", "A"), "A", 0),
            (("1.0", "A"), ("1.0", "B"), "A", 1),
        ] {
            let files = [
                ("crds/a.yaml", definition("a", first.0, first.1)),
                ("crds/b.yaml", definition("a", second.0, second.1)),
            ];
            let (crds, found) = Definitions::of(&chart("app", &files, vec![])).into_chart_crds();
            let scopes: Vec<_> = crds.iter().map(|crd| &crd.object["spec"]["scope"]).collect();
            assert_eq!(scopes, [expected], "{first:?} {second:?}");
            assert_eq!(found.len(), problems, "{found:?}");
        }
    }
}
