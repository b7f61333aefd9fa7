//! The objects that a chart's templates see: `.Values`, `.Chart`, `.Release`, `.Files`, `.Subcharts`, `.Capabilities`.
//! Facts: Helm's `recAllTpls` in `pkg/engine/engine.go` and `MetadataAsMap` in `pkg/chart/common.go`.

use std::collections::BTreeMap;
use std::rc::Rc;

use go_template::memory::MapTable;
use go_template::{Entries, Map, MapKind, NamedType, Param, Str, Value};

static VALUES_TYPE: NamedType = NamedType {
    name: "common.Values",
    of_bytes: false,
    methods: &[
        ("AsMap", &[]),
        ("YAML", &[]),
        ("Table", &[Param::String]),
        ("PathValue", &[Param::String]),
    ],
};

static FILES_TYPE: NamedType = NamedType {
    name: "engine.files",
    of_bytes: true,
    methods: &[
        ("GetBytes", &[Param::String]),
        ("Get", &[Param::String]),
        ("Glob", &[Param::String]),
        ("AsConfig", &[]),
        ("AsSecrets", &[]),
        ("Lines", &[Param::String]),
    ],
};

/// `.Values`, and what templates are executed over.
pub const VALUES: MapKind = MapKind::Named(&VALUES_TYPE);
/// `.Files`
pub const FILES: MapKind = MapKind::Named(&FILES_TYPE);

/// `.Release`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseObject {
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub is_install: bool,
    pub is_upgrade: bool,
}

impl ReleaseObject {
    /// A release as it is when it is installed: its first revision.
    pub fn install(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        ReleaseObject {
            name: name.into(),
            namespace: namespace.into(),
            revision: 1,
            is_install: true,
            is_upgrade: false,
        }
    }

    /// The map that templates see.
    pub fn to_value(&self) -> Value {
        entries([
            ("Name", Value::string(self.name.as_str())),
            ("Namespace", Value::string(self.namespace.as_str())),
            ("IsInstall", Value::Bool(self.is_install)),
            ("IsUpgrade", Value::Bool(self.is_upgrade)),
            ("Revision", Value::Int(self.revision)),
            ("Service", Value::string("Helm")),
        ])
    }
}

/// A `map[string]interface {}` with these entries.
pub fn entries<const N: usize>(list: [(&str, Value); N]) -> Value {
    Value::map(list.into_iter().map(|(key, value)| (Str::from(key), value)).collect())
}

/// A Go slice of strings that Helm has turned into `[]interface {}`.
pub fn texts(list: &[String]) -> Value {
    Value::list(list.iter().map(|text| Value::string(text.as_str())).collect())
}

/// A `map[string]string`; nil where the chart has none.
pub fn string_map(map: Option<&BTreeMap<String, String>>) -> Value {
    let entries = map.into_iter().flatten();
    let entries = entries.map(|(key, value)| (Str::from(key.as_str()), Value::string(value.as_str())));
    Value::Map(match map {
        None => Map::nil(MapKind::String),
        Some(_) => Map::new(MapKind::String, entries.collect()),
    })
}

/// `.Template`, which differs from file to file: its path, and the `templates` folder of its chart.
pub fn template(name: &str, base_path: &str) -> Value {
    let entries = Entries::from([
        (Str::from("Name"), Value::string(name)),
        (Str::from("BasePath"), Value::string(base_path)),
    ]);
    Value::Map(Map {
        kind: VALUES,
        entries: Some(Rc::new(MapTable::local(entries))),
    })
}

/// `.Files`, from the names and contents of a chart's files. The contents are strings here, not `[]byte`: a byte list
/// needs one value per byte, and templates cannot observe the difference.
pub fn files(files: &[(Str, Str)]) -> Value {
    let entries: Entries = files
        .iter()
        .map(|(name, data)| (name.clone(), Value::String(data.clone())))
        .collect();
    Value::Map(Map::new(FILES, entries))
}
