use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use super::*;
use crate::plan::identity::GroupKind;

fn metadata(value: Value) -> ObjectMeta {
    serde_json::from_value(value).unwrap()
}

fn claimant(collisions: Collisions) -> Claimant {
    Claimant {
        uid: "u1".into(),
        primary: "shop/web".into(),
        primary_type: "Store.example.com".into(),
        release: "web".into(),
        namespace: "shop".into(),
        collisions,
    }
}

fn owner(uid: &str, controller: bool) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Store", "name": "web", "uid": uid, "controller": controller})
}

fn entry(manager: &str, operation: &str, subresource: &str, time: u8, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "v1",
        "time": format!("2026-01-01T00:00:{time:02}Z"), "fieldsType": "FieldsV1", "fieldsV1": fields,
    })
}

fn entries(list: Value) -> Vec<ManagedFieldsEntry> {
    serde_json::from_value(list).unwrap()
}

const HEIR: Heir<'_> = Heir {
    manager: "chartwright",
    subresource: "",
    api_version: "v1",
    manifest: None,
    owner_uid: "u1",
};

/// The fields of ours afterwards, and the names of the others.
fn inherited(list: Value, heir: &Heir<'_>, owned: bool) -> Option<(Value, Vec<String>)> {
    let after = inherit(&entries(list), heir, owned)?;
    let ours = |entry: &&ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(heir.manager) && entry.operation.as_deref() == Some("Apply")
    };
    let fields = after.iter().find(ours).map(|entry| entry.fields_v1.clone().unwrap().0);
    let others = after
        .iter()
        .filter(|entry| !ours(entry))
        .map(|entry| entry.manager.clone().unwrap());
    Some((fields.unwrap(), others.collect()))
}

#[test]
fn a_claim_is_decided_by_what_stands_on_the_object() {
    use Collisions::{Adopt, Force, Prevent};
    let helm = |name: &str| json!({"annotations": {HELM_RELEASE: name, HELM_NAMESPACE: "shop"}});
    let primary = |name: &str, kind: &str| json!({"annotations": {PRIMARY: name, PRIMARY_TYPE: kind}});
    let mut stolen = primary("shop/web", "Store.example.com");
    stolen["ownerReferences"] = json!([owner("u2", true)]);
    let refused = |text: &'static str| Err(text);
    let cases = [
        (
            json!({"ownerReferences": [owner("u1", true)]}),
            Prevent,
            Ok(Claim::Inherited),
        ),
        (
            json!({"ownerReferences": [owner("u1", false)]}),
            Prevent,
            refused("not made by this operator"),
        ),
        (
            json!({"ownerReferences": [owner("u2", true)]}),
            Adopt,
            refused("controlled by Store/web"),
        ),
        (
            json!({"ownerReferences": [owner("u2", true)]}),
            Force,
            Ok(Claim::Forced),
        ),
        (primary("shop/web", "Store.example.com"), Prevent, Ok(Claim::Inherited)),
        (
            primary("shop/api", "Store.example.com"),
            Prevent,
            refused("not made by this operator"),
        ),
        (
            primary("shop/web", "Other.example.com"),
            Prevent,
            refused("not made by this operator"),
        ),
        (stolen, Prevent, refused("controlled by Store/web")),
        (
            helm("web"),
            Prevent,
            refused("Helm release shop/web; to take it over, set `collisions: Adopt`"),
        ),
        (helm("web"), Adopt, Ok(Claim::Adopted)),
        (
            helm("api"),
            Adopt,
            refused("Helm release shop/api, and this one is shop/web"),
        ),
        (helm("api"), Force, Ok(Claim::Forced)),
        (
            json!({"annotations": {HELM_RELEASE: "web"}}),
            Adopt,
            refused("not made by this operator"),
        ),
        (json!({}), Adopt, refused("not made by this operator")),
        (json!({}), Force, Ok(Claim::Forced)),
    ];
    for (object, policy, expected) in cases {
        match (claim(&metadata(object.clone()), &claimant(policy)), expected) {
            (Claim::Refused(why), Err(part)) => assert!(why.contains(part), "{object}: {why}"),
            (found, expected) => assert_eq!(Ok(found), expected, "{object} {policy:?}"),
        }
    }
}

#[test]
fn those_who_write_whole_objects_give_their_fields_and_people_keep_theirs() {
    let reference = json!({"k:{\"uid\":\"u1\"}": {}});
    let former = json!({"f:data": {"f:a": {}}, "f:metadata": {"f:ownerReferences": reference}});
    for (manager, operation, taken) in [
        ("helm-operator", "Update", true),
        ("helm", "Apply", true),
        ("kubectl-client-side-apply", "Update", true),
        ("kubectl", "Apply", true),
        // An operator with a name of its own is known by the owner reference.
        ("manager", "Update", true),
        ("kubectl-edit", "Update", false),
    ] {
        let list = json!([entry(manager, operation, "", 1, former.clone())]);
        let (ours, others) = inherited(list, &HEIR, true).unwrap();
        assert_eq!(ours.pointer("/f:data/f:a").is_some(), taken, "{manager}");
        assert_eq!(ours["f:metadata"]["f:ownerReferences"], reference, "{manager}");
        assert_eq!(others.is_empty(), taken, "{manager}");
    }
    let person = json!([
        entry("kubectl-edit", "Update", "", 2, json!({"f:data": {"f:b": {}}})),
        entry("helm-operator", "Update", "status", 3, json!({"f:status": {"f:x": {}}})),
        entry(
            "kube-controller-manager",
            "Update",
            "",
            4,
            json!({"f:metadata": {"f:annotations": {"f:r": {}}}})
        ),
    ]);
    assert_eq!(inherited(person, &HEIR, false), None, "nothing of it was a chart's");
}

#[test]
fn the_owner_reference_becomes_ours_alone() {
    let key = "k:{\"uid\":\"u1\"}";
    let shared = json!({"f:metadata": {"f:ownerReferences": {".": {}, (key): {}, "k:{\"uid\":\"u2\"}": {}}}});
    let after = inherit(
        &entries(json!([entry("kubectl-edit", "Update", "", 1, shared)])),
        &HEIR,
        true,
    )
    .unwrap();
    let fields: Vec<&Value> = after.iter().map(|entry| &entry.fields_v1.as_ref().unwrap().0).collect();
    assert_eq!(
        *fields[0],
        json!({"f:metadata": {"f:ownerReferences": {".": {}, "k:{\"uid\":\"u2\"}": {}}}})
    );
    assert_eq!(*fields[1], json!({"f:metadata": {"f:ownerReferences": {(key): {}}}}));
    // Once it is so, there is nothing to write.
    assert_eq!(inherit(&after, &HEIR, true), None);
}

#[test]
fn sets_are_united_path_by_path() {
    let list = json!([
        entry(
            "helm",
            "Update",
            "",
            1,
            json!({"f:data": {".": {}, "f:a": {}}, "f:x": {}})
        ),
        entry(
            "chartwright",
            "Apply",
            "",
            2,
            json!({"f:data": {"f:b": {}}, "f:x": {"f:y": {}}})
        ),
        entry("helm-operator", "Update", "", 3, json!({"f:z": {}})),
    ]);
    let (ours, others) = inherited(list, &HEIR, false).unwrap();
    assert_eq!(
        ours,
        json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:x": {".": {}, "f:y": {}}, "f:z": {}})
    );
    assert!(others.is_empty());
}

#[test]
fn what_the_api_server_filled_in_becomes_nobodys() {
    let manifest =
        json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}, {"port": 81, "protocol": "UDP"}], "args": ["x"]}});
    let port = |number: u16| format!("k:{}", json!({"port": number, "protocol": "TCP"}));
    let sent = json!({
        "f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}},
        "f:spec": {
            "f:type": {}, "f:clusterIPs": {}, "f:sessionAffinity": {}, "f:args": {"v:\"x\"": {}, "v:\"y\"": {}},
            "f:ports": {".": {}, (port(80)): {".": {}, "f:port": {}, "f:protocol": {}}, (port(81)): {".": {}}},
        },
    });
    let list = json!([entry("helm-operator", "Update", "", 1, sent.clone())]);
    let heir = Heir {
        manifest: Some(&manifest),
        ..HEIR
    };
    let (ours, _) = inherited(list.clone(), &heir, false).unwrap();
    assert_eq!(
        ours,
        json!({
            "f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}},
            "f:spec": {"f:type": {}, "f:args": {"v:\"x\"": {}}, "f:ports": {".": {}, (port(80)): {".": {}, "f:port": {}}}},
        })
    );
    let (ours, _) = inherited(list, &HEIR, false).unwrap();
    assert!(ours["f:spec"].get("f:clusterIPs").is_none() && ours["f:spec"].get("f:sessionAffinity").is_some());
}

#[test]
fn a_custom_resource_loses_the_finalizers_and_what_holds_them() {
    let finalizers = json!([FINALIZERS[1], "theirs", "chartwright.dev/release", FINALIZERS[0]]);
    let held =
        json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"helm.sdk.operatorframework.io/uninstall-release\"": {}}}});
    let object = metadata(json!({
        "uid": "u1", "resourceVersion": "7", "finalizers": finalizers,
        "managedFields": [
            entry("kubectl-client-side-apply", "Update", "", 1, json!({"f:spec": {}})),
            entry("helm-operator", "Update", "", 2, held),
            entry("helm-operator", "Update", "status", 3, json!({"f:status": {"f:deployedRelease": {}}})),
        ],
    }));
    let patch = farewell(&object, "chartwright-status").unwrap()["metadata"].take();
    assert_eq!((&patch["uid"], &patch["resourceVersion"]), (&json!("u1"), &json!("7")));
    assert_eq!(patch["finalizers"], json!(["theirs", "chartwright.dev/release"]));
    let managers: Vec<_> = patch["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].clone())
        .collect();
    assert_eq!(
        managers,
        ["kubectl-client-side-apply", "chartwright-status"],
        "the spec is still kubectl's"
    );
    assert_eq!(
        farewell(&metadata(json!({"finalizers": ["theirs"]})), "chartwright-status"),
        None
    );
}

#[test]
fn owner_references_of_others_stay() {
    let id = ObjectId::new(GroupKind::new("", "ConfigMap"), "shop", "a");
    let us = Owner {
        uid: "u1".into(),
        set: "set-a".into(),
    };
    let one = metadata(json!({"ownerReferences": [owner("u1", true)]}));
    let two = metadata(json!({"ownerReferences": [owner("u2", false), owner("u1", true)]}));
    assert_eq!(parting(&one, "u1").unwrap()["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(
        parting(&two, "u1").unwrap()["metadata"]["ownerReferences"][0]["uid"],
        "u2"
    );
    assert_eq!(parting(&two, "u3"), None);
    let patch = marks(&one, &id, &us, "op")["metadata"].take();
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

#[test]
fn a_stored_release_is_read_and_its_errors_quote_nothing() {
    use data_encoding::BASE64;
    use std::io::Write;
    let json =
        br#"{"version": 3, "info": {"status": "deployed"}, "manifest": "a: 1", "config": {"password": "hunter2"}}"#;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(json).unwrap();
    for packed in [gzip.finish().unwrap(), json.to_vec()] {
        let release = StoredRelease::decode(BASE64.encode(&packed).as_bytes(), 1 << 20).unwrap();
        assert_eq!(
            (release.version, release.manifest.as_str(), release.is_deployed()),
            (3, "a: 1", true)
        );
    }
    for (data, part) in [
        (b"%".to_vec(), "base64"),
        (BASE64.encode(b"\x1f\x8b\x08hunter2").into_bytes(), "unpacked"),
        (
            BASE64.encode(br#"{"version": "hunter2"}"#).into_bytes(),
            "not a Helm release",
        ),
    ] {
        let error = StoredRelease::decode(&data, 1 << 20).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_manifest_gives_its_objects() {
    let manifest = "---\n# Source: a\nkind: A\n---\nkind: List\nitems:\n- kind: B\n- kind: CList\n  items: [{kind: C}]\n---\n# nothing\n";
    let kinds: Vec<_> = objects(manifest, 1 << 20)
        .unwrap()
        .iter()
        .map(|object| object["kind"].clone())
        .collect();
    assert_eq!(kinds, ["A", "B", "C"]);
    assert!(objects("a: [", 1 << 20).is_err());
}

#[test]
fn a_release_that_takes_more_memory_than_there_is_for_it_is_refused() {
    use data_encoding::BASE64;
    use std::io::Write;
    let manifest = "- a: 1\n".repeat(10_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    write!(gzip, "{}", json!({"version": 1, "manifest": manifest})).unwrap();
    let packed = BASE64.encode(&gzip.finish().unwrap());
    assert!(packed.len() < 2_000);
    let most = manifest.len() as u64;
    let error = StoredRelease::decode(packed.as_bytes(), most).unwrap_err().to_string();
    assert!(error.contains(&format!("larger than {most} bytes")), "{error}");
    assert_eq!(
        StoredRelease::decode(packed.as_bytes(), 2 * most).unwrap().manifest,
        manifest
    );
    let error = objects(&manifest, 10 * most).unwrap_err().to_string();
    assert!(
        error.contains(&format!("more than {} bytes of memory", 10 * most)),
        "{error}"
    );
    assert!(objects(&manifest, 1 << 30).is_ok());
}
