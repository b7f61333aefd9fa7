use std::io::Write;

use data_encoding::BASE64;

use super::*;
use crate::testing::{Managed, id, managed_fields, owner, table};

fn metadata(value: Value) -> ObjectMeta {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_claim_is_decided_by_what_stands_on_the_object() {
    for (object, collisions, expected) in table::<(ObjectMeta, Collisions, String)>("takeover", "claims") {
        let claimant = Claimant {
            uid: "u1".into(),
            primary: "shop/web".into(),
            primary_type: "Store.example.com".into(),
            release: "web".into(),
            namespace: "shop".into(),
            collisions,
        };
        match claim(&object, &claimant) {
            Claim::Refused(why) => assert!(why.contains(&expected), "{object:?}: {why}"),
            found => assert_eq!(format!("{found:?}"), expected, "{object:?} {collisions:?}"),
        }
    }
}

#[test]
fn those_who_write_whole_objects_give_their_fields_and_people_keep_theirs() {
    type Row = (Vec<Managed>, bool, Option<Value>, Option<Vec<Managed>>);
    for (entries, owned, manifest, expected) in table::<Row>("takeover", "inheritances") {
        let heir = Heir {
            manager: "chartwright",
            subresource: "",
            api_version: "v1",
            manifest: manifest.as_ref(),
            owner_uid: "u1",
        };
        let entries = managed_fields(entries);
        let found = inherit(&entries, &heir, owned);
        assert_eq!(found, expected.map(managed_fields), "{entries:?}");
    }
}

#[test]
fn a_custom_resource_loses_the_finalizers_and_what_holds_them() {
    let entry = |manager: &str, subresource: &str, fields| {
        let row = (
            manager.to_owned(),
            "Update".to_owned(),
            subresource.to_owned(),
            Some(1),
            fields,
        );
        managed_fields(vec![row])
    };
    let held = json!({"f:metadata": {"f:finalizers": {".": {}, (format!("v:{}", json!(FINALIZERS[0]))): {}}}});
    let entries = [
        entry("kubectl-client-side-apply", "", json!({"f:spec": {}})),
        entry("helm-operator", "", held),
        entry(
            "helm-operator",
            "status",
            json!({"f:status": {"f:deployedRelease": {}}}),
        ),
    ];
    let object = metadata(json!({
        "uid": "u1", "resourceVersion": "7", "managedFields": entries.concat(),
        "finalizers": [FINALIZERS[1], "theirs", "chartwright.dev/release", FINALIZERS[0]],
    }));
    let patch = farewell(&object, "chartwright-status").unwrap()["metadata"].take();
    assert_eq!((&patch["uid"], &patch["resourceVersion"]), (&json!("u1"), &json!("7")));
    assert_eq!(patch["finalizers"], json!(["theirs", "chartwright.dev/release"]));
    let managers: Vec<&Value> = patch["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["manager"])
        .collect();
    assert_eq!(
        managers,
        ["kubectl-client-side-apply", "chartwright-status"],
        "the spec is still kubectl's"
    );
    let free = metadata(json!({"finalizers": ["theirs"]}));
    assert_eq!(farewell(&free, "chartwright-status"), None);
}

#[test]
fn owner_references_of_others_stay() {
    let owned = |uids: &[&str]| {
        let owner = |uid| json!({"apiVersion": "example.com/v1", "kind": "Store", "name": "web", "uid": uid});
        metadata(json!({"ownerReferences": uids.iter().map(owner).collect::<Vec<_>>()}))
    };
    let one = owned(&["u1"]);
    let two = owned(&["u2", "u1"]);
    assert_eq!(parting(&one, "u1").unwrap()["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(
        parting(&two, "u1").unwrap()["metadata"]["ownerReferences"][0]["uid"],
        "u2"
    );
    assert_eq!(parting(&two, "u3"), None);
    let patch = marks(&one, &id("ConfigMap", "a"), &owner(), "op")["metadata"].take();
    assert_eq!(
        patch["annotations"][applyset::TRACKING_ANNOTATION],
        "u1:ConfigMap:shop/a"
    );
    assert_eq!(
        patch["labels"],
        json!({(applyset::PART_OF_LABEL): "set-a", (applyset::OPERATOR_LABEL): "op"})
    );
    assert!(patch.as_object().unwrap().contains_key("ownerReferences"));
}

fn packed(json: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(json).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn a_stored_release_is_read_and_its_errors_quote_nothing() {
    let json =
        br#"{"version": 3, "info": {"status": "deployed"}, "manifest": "a: 1", "config": {"password": "hunter2"}}"#;
    for data in [packed(json), json.to_vec()] {
        let release = StoredRelease::decode(BASE64.encode(&data).as_bytes(), 1 << 20).unwrap();
        let found = (release.version, release.manifest.as_str(), release.is_deployed());
        assert_eq!(found, (3, "a: 1", true));
    }
    for (data, part) in [
        ("%".to_owned(), "base64"),
        (BASE64.encode(b"\x1f\x8b\x08hunter2"), "unpacked"),
        (BASE64.encode(br#"{"version": "hunter2"}"#), "not a Helm release"),
    ] {
        let error = StoredRelease::decode(data.as_bytes(), 1 << 20).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_manifest_gives_its_objects() {
    let manifest = "---\n# Source: a\nkind: A\n---\nkind: List\nitems:\n- kind: B\n- kind: CList\n  items: [{kind: C}]\n---\n# nothing\n";
    let found = objects(manifest, 1 << 20).unwrap();
    let kinds: Vec<&Value> = found.iter().map(|object| &object["kind"]).collect();
    assert_eq!(kinds, ["A", "B", "C"]);
    assert!(objects("a: [", 1 << 20).is_err());
}

#[test]
fn a_release_that_takes_more_memory_than_there_is_for_it_is_refused() {
    let manifest = "- a: 1\n".repeat(10_000);
    let data = BASE64.encode(&packed(
        json!({"version": 1, "manifest": manifest}).to_string().as_bytes(),
    ));
    assert!(data.len() < 2_000);
    let most = manifest.len() as u64;
    let error = StoredRelease::decode(data.as_bytes(), most).unwrap_err().to_string();
    assert!(error.contains(&format!("larger than {most} bytes")), "{error}");
    assert_eq!(
        StoredRelease::decode(data.as_bytes(), 2 * most).unwrap().manifest,
        manifest
    );
    let error = objects(&manifest, 10 * most).unwrap_err().to_string();
    assert!(
        error.contains(&format!("more than {} bytes of memory", 10 * most)),
        "{error}"
    );
    assert!(objects(&manifest, 1 << 30).is_ok());
}
