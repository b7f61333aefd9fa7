//! What goes away while the operator runs: a version of a member's API.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::{SOON, World, member_rule, served_changed};

/// A CRD `Gadget` that has been there as v1alpha1 and becomes v1.
fn serve_gadgets(world: &World, alpha: bool, stable: bool) -> Result<()> {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{}", world.group())},
        "spec": {
            "group": world.group(), "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "versions": [
                {"name": "v1", "served": stable, "storage": true, "schema": schema},
                {"name": "v1alpha1", "served": alpha, "storage": false, "schema": schema},
            ],
        },
    });
    served_changed();
    world.control_plane.kubectl().apply(&crd.to_string())?;
    served_changed();
    Ok(())
}

#[test]
fn a_kind_whose_version_goes_is_watched_in_another() -> Result<()> {
    let world = World::new("gone-version")?;
    let group = world.group();
    let gadget = format!(
        "apiVersion: {group}/{{{{ .Values.version }}}}\nkind: Gadget\nmetadata: {{name: '{{{{ .Release.Name }}}}'}}\n\
         spec: {{size: 1}}\n"
    );
    let copy = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: '{{{{ .Release.Name }}}}-copy'}}\ndata:\n  of: {{{{ dig \
         \"spec\" \"text\" \"nothing\" (lookup (printf \"{group}/%s\" .Values.version) \"Gadget\" .Release.Namespace \
         \"source\") }}}}\n"
    );
    let chart = world.write_chart("moving", &[("gadget.yaml", &gadget), ("copy.yaml", &copy)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    world.grant("gadgets", &[member_rule(&group, "gadgets")])?;
    serve_gadgets(&world, true, false)?;
    let gadgets = world.resource("Gadget");
    let await_served = |version: &str, name: &str, spec: Value| {
        let object = json!({
            "apiVersion": format!("{group}/{version}"), "kind": "Gadget", "metadata": {"name": name}, "spec": spec,
        });
        eventually(&format!("{version} is served"), SOON, || Ok(world.apply(&object).ok()))
    };
    await_served("v1alpha1", "source", json!({"text": "one"}))?;
    let operator = world.start()?;
    world.install("a", json!({"version": "v1alpha1"}))?;
    let await_copy = |text: &str| {
        world.await_object("configmap", "a-copy", &format!("says {text}"), |copy| {
            copy["data"]["of"] == text
        })
    };
    await_copy("one")?;

    serve_gadgets(&world, true, true)?;
    await_served("v1", "other", json!({}))?;
    world.update("a", json!({"version": "v1"}))?;
    serve_gadgets(&world, false, true)?;
    operator.await_log("this version is no longer served")?;
    world.patch(&gadgets, "a", &json!({"spec": {"size": 9}}))?;
    world.await_object(&gadgets, "a", "is put right", |gadget| gadget["spec"]["size"] == 1)?;
    world.patch(&gadgets, "source", &json!({"spec": {"text": "two"}}))?;
    await_copy("two")?;
    for status in ["False", "True"] {
        let conditions = json!([{"type": "Ready", "status": status, "reason": "Said", "message": "so"}]);
        world.patch(&gadgets, "a", &json!({"status": {"conditions": conditions}}))?;
        world.await_condition("a", "Ready", status)?;
    }
    world.kubectl.delete(&gadgets, "a")?;
    world.await_object(&gadgets, "a", "is made anew", |_| true)?;
    world.update("a", json!({"more": true}))?;
    ensure!(world.get(&gadgets, "source")?.is_some() && world.get(&gadgets, "other")?.is_some());
    Ok(())
}
