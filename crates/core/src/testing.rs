//! Shared values for unit tests: a release, one of its members, the live member, and the tables of `tests/fixtures/plan`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::digest::{Key, Keyring};
use crate::identity::applyset::tracking_id;
use crate::identity::ownership::Owner;
use crate::identity::{GroupKind, ObjectId};
use crate::index::live::{FieldManagers, Live, OwnershipMarks};
use crate::members::desired::{Member, Stage};
use crate::members::policy::Policy;
use crate::record::Entry;
use crate::record::signature::RecordSeal;

pub fn owner() -> Owner {
    Owner {
        uid: "u1".into(),
        set: "set-a".into(),
    }
}

/// Signs for the custom resource `Shop.a.test` `shop/a`.
pub fn seal() -> RecordSeal<'static> {
    static RING: LazyLock<(Keyring, GroupKind)> = LazyLock::new(|| {
        let keys = Keyring::new(Key::new([1; 32]), Vec::new());
        (keys, GroupKind::parse("Shop.a.test"))
    });
    let (keys, group_kind) = &*RING;
    RecordSeal {
        keys,
        key: keys.current(),
        group_kind,
        namespace: "shop",
        name: "a",
        uid: "u1",
    }
}

/// An object of the namespace `shop`; `kind` as `Kind.group`.
pub fn id(kind: &str, name: &str) -> ObjectId {
    ObjectId::new(GroupKind::parse(kind), "shop", name)
}

pub fn member(id: &ObjectId) -> Member {
    Member {
        id: id.clone(),
        version: "v1".into(),
        stage: Stage::of(&id.group_kind),
        object: Value::Null,
        source: "t.yaml".into(),
        digest: "d".into(),
        policy: Policy::default(),
        owner: None,
        ignored: None,
    }
}

/// The entry of a [`member`] that was applied.
pub fn entry(id: &ObjectId) -> Entry {
    Entry {
        uid: "o1".into(),
        digest: "d".into(),
        fingerprint: Some(7),
        ..Entry::of(&member(id))
    }
}

/// A [`member`] as its [`entry`] says that it was left.
pub fn live(id: &ObjectId) -> Live {
    Live {
        uid: "o1".into(),
        ownership: OwnershipMarks {
            part_of: Some("set-a".into()),
            tracking: Some(tracking_id("u1", &id.group_kind, &id.namespace, &id.name).into()),
            ..OwnershipMarks::default()
        },
        managers: FieldManagers {
            fingerprint: Some(7),
            ..FieldManagers::default()
        },
        ..Live::default()
    }
}

/// A row that stands for an entry of managedFields: manager, operation, subresource, second of its minute, fields.
pub type Managed = (String, String, String, Option<u8>, Value);

pub fn managed_fields(rows: Vec<Managed>) -> Vec<ManagedFieldsEntry> {
    let entry = |(manager, operation, subresource, second, fields): Managed| ManagedFieldsEntry {
        manager: Some(manager),
        operation: Some(operation),
        subresource: Some(subresource).filter(|subresource| !subresource.is_empty()),
        time: second.map(|second| Time(format!("2026-01-01T00:00:{second:02}Z").parse().unwrap())),
        api_version: Some("v1".into()),
        fields_type: Some("FieldsV1".into()),
        fields_v1: Some(FieldsV1(fields)),
    };
    rows.into_iter().map(entry).collect()
}

/// The same but for a change.
pub fn but<T: Clone>(value: &T, change: impl FnOnce(&mut T)) -> T {
    let mut value = value.clone();
    change(&mut value);
    value
}

/// The same but for these fields.
pub fn with<T: Serialize + DeserializeOwned>(value: &T, fields: &Value) -> T {
    let mut changed = json!(value);
    for (field, value) in fields.as_object().into_iter().flatten() {
        changed[field] = value.clone();
    }
    serde_json::from_value(changed).unwrap_or_else(|error| panic!("{fields}: {error}"))
}

/// A table of `tests/fixtures/plan/<file>.yaml`: its rows, each a list or a mapping.
pub fn table<T: DeserializeOwned>(file: &str, name: &str) -> Vec<T> {
    let path = format!("{}/../../tests/fixtures/plan/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut tables = go_yaml::to_json(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_value(tables[name].take()).unwrap_or_else(|error| panic!("{path}: {name}: {error}"))
}
