//! What a test needs: a namespace, a kind of its own, rights, a chart, and an operator process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::look::{brief, condition};
use crate::operator::{Launch, Operator};
use crate::support::{ControlPlane, Kubectl, Mark, Request, Requests, eventually};

/// How long anything that is watched may take. Generous: the machine may be busy with other tests.
pub const SOON: Duration = Duration::from_secs(30);

/// How long a watch may take to put something right. Any timer of the operator takes longer.
pub const PROMPT: Duration = Duration::from_secs(10);

/// When a test last changed what the API server serves. Every operator then reads discovery anew, for some seconds.
static SERVED_CHANGED: Mutex<Option<Instant>> = Mutex::new(None);
const DISCOVERY_ECHO: Duration = Duration::from_secs(8);

/// The chart that the tests use, unless they bring their own.
pub fn widget_chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/integration/chart")
}

/// A corner of the control plane that belongs to one test.
pub struct World {
    pub control_plane: &'static ControlPlane,
    /// kubectl as admin, in this world's namespace.
    pub kubectl: Kubectl,
    /// Namespace, operator name and API group (`<namespace>.test`) of this world.
    pub name: String,
    /// Scratch: the chart, the watches file and the logs.
    pub dir: tempfile::TempDir,
    /// Extra keys of the watch, as YAML lines without indentation.
    watch_keys: Vec<String>,
    cluster_scoped: bool,
}

/// Where a count of requests begins.
#[derive(Clone, Copy)]
pub struct Start {
    mark: Mark,
    at: Instant,
}

/// How a world differs from the usual one.
pub struct Setup<'a> {
    pub cluster_scoped: bool,
    /// Installs the CRD of `Widget`.
    pub crd: bool,
    /// The namespaces in which the operator has rights; none: in the whole cluster.
    pub only_in: &'a [&'a str],
    /// A control plane of its own: for what would disturb all other tests.
    pub alone: bool,
    /// Resources (as RBAC names them) that the operator has no rights on, though `config/rbac` gives some.
    pub without: &'a [&'a str],
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Setup {
            cluster_scoped: false,
            crd: true,
            only_in: &[],
            alone: false,
            without: &[],
        }
    }
}

impl World {
    /// A namespace, a namespaced kind `Widget` in the group `<name>.test`, and an operator's account in it.
    pub fn new(name: &str) -> Result<Self> {
        Self::with(name, Setup::default())
    }

    pub fn with(name: &str, setup: Setup<'_>) -> Result<Self> {
        let control_plane = match setup.alone {
            // It ends with the process, as the shared one does.
            true => Box::leak(Box::new(ControlPlane::builder().start()?)),
            false => ControlPlane::shared(),
        };
        let world = World {
            control_plane,
            kubectl: control_plane.kubectl().create_namespace(name)?,
            name: name.to_owned(),
            dir: tempfile::tempdir()?,
            watch_keys: Vec::new(),
            cluster_scoped: setup.cluster_scoped,
        };
        copy_folder(&widget_chart(), &world.chart())?;
        if setup.crd {
            world.install_crd("Widget")?;
        }
        world.grant_project_rules(&setup)?;
        Ok(world)
    }

    /// The world's copy of the chart: a test may break it.
    pub fn chart(&self) -> PathBuf {
        self.dir.path().join("chart")
    }

    /// Another chart, from its templates by file name.
    pub fn write_chart(&self, name: &str, templates: &[(&str, &str)]) -> Result<PathBuf> {
        let folder = self.dir.path().join(name);
        fs::create_dir_all(folder.join("templates"))?;
        fs::write(
            folder.join("Chart.yaml"),
            format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n"),
        )?;
        for (file, text) in templates {
            fs::write(folder.join("templates").join(file), text)?;
        }
        Ok(folder)
    }

    pub fn group(&self) -> String {
        format!("{}.test", self.name)
    }

    /// Adds a key to the watch of `Widget`, for example `selector: {matchLabels: {a: b}}`.
    pub fn watch_key(mut self, yaml: &str) -> Self {
        self.watch_keys.push(yaml.to_owned());
        self
    }

    /// Installs a CRD of this world's group: status subresource, and any fields in spec and status.
    pub fn install_crd(&self, kind: &str) -> Result<()> {
        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        self.install_crd_with(kind, Some(free))
    }

    /// The same with this schema of the status; `None`: without the subresource.
    pub fn install_crd_with(&self, kind: &str, status: Option<Value>) -> Result<()> {
        let plural = format!("{}s", kind.to_lowercase());
        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let subresources = match status {
            Some(_) => json!({"status": {}}),
            None => json!({}),
        };
        let status = status.unwrap_or_else(|| json!({"type": "object"}));
        let name = format!("{plural}.{}", self.group());
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {
                "group": self.group(), "scope": if self.cluster_scoped { "Cluster" } else { "Namespaced" },
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": subresources,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": status}}},
                }],
            },
        });
        served_changed();
        self.control_plane.kubectl().apply(&crd.to_string())?;
        self.control_plane.kubectl().wait("Established", "crd", &name, SOON)?;
        served_changed();
        Ok(())
    }

    /// The rules of a role in `config`, with this world's kind in place of Memcached and its names in place of the
    /// project's.
    pub fn project_rules(&self, role: &str) -> Result<Vec<Value>> {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
        let ours = |rule: Value| {
            let text = rule.to_string().replace("cache.example.com", &self.group());
            let text = text.replace("memcacheds", "widgets");
            let text = text.replace("chartwright-hmac-key", &format!("{}-hmac-key", self.name));
            // What the tests call their Leases.
            serde_json::from_str(&text.replace("\"chartwright\"", &format!("{:?},\"widgets\"", self.name)))
        };
        let rules = rules_of(&config.join(role))?.into_iter().map(ours);
        Ok(rules.collect::<serde_json::Result<_>>()?)
    }

    /// The project's own rules, the same for the kind Gadget, and those for two kinds that only the tests' chart makes.
    fn grant_project_rules(&self, setup: &Setup<'_>) -> Result<()> {
        let role = match setup.only_in {
            [] => "rbac/role.yaml",
            _ => "namespaced/role.yaml",
        };
        let mut rules = self.project_rules(role)?;
        let gadgets: Vec<Value> = rules
            .iter()
            .filter(|rule| rule.to_string().contains("widgets"))
            .map(|rule| serde_json::from_str(&rule.to_string().replace("widgets", "gadgets")))
            .collect::<serde_json::Result<_>>()?;
        rules.extend(gadgets);
        rules.push(member_rule("apps", "deployments"));
        rules.push(member_rule("scheduling.k8s.io", "priorityclasses"));
        let mut own = self.project_rules("rbac/leader_election_role.yaml")?;
        own.extend(self.project_rules("rbac/hmac_key_role.yaml")?);
        for rule in rules.iter_mut().chain(&mut own) {
            if let Some(resources) = rule["resources"].as_array_mut() {
                resources.retain(|resource| !setup.without.iter().any(|without| resource == without));
            }
        }
        let is_some = |rule: &Value| {
            rule["resources"]
                .as_array()
                .is_none_or(|resources| !resources.is_empty())
        };
        rules.retain(is_some);
        own.retain(is_some);
        let mut objects = vec![
            json!({"kind": "ClusterRole", "metadata": {"name": self.name}, "rules": rules}),
            json!({"kind": "Role", "metadata": {"name": "own", "namespace": self.name}, "rules": own}),
            self.binding("Role", "own", Some(&self.name)),
        ];
        match setup.only_in {
            [] => objects.push(self.binding("ClusterRole", &self.name, None)),
            names => objects.extend(
                names
                    .iter()
                    .map(|name| self.binding("ClusterRole", &self.name, Some(name))),
            ),
        }
        self.apply_rbac(objects)
    }

    /// Gives the operator further rules, in the whole cluster.
    pub fn grant(&self, role: &str, rules: &[Value]) -> Result<()> {
        let name = format!("{}-{role}", self.name);
        let role = json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        self.apply_rbac(vec![role, self.binding("ClusterRole", &name, None)])
    }

    /// Takes away what [`World::grant`] gave.
    pub fn revoke(&self, role: &str) -> Result<()> {
        let name = format!("{}-{role}", self.name);
        self.control_plane
            .kubectl()
            .delete("clusterrolebinding", &name)
            .map(drop)
    }

    fn binding(&self, kind: &str, role: &str, namespace: Option<&str>) -> Value {
        let metadata = match namespace {
            Some(namespace) => json!({"name": role, "namespace": namespace}),
            None => json!({"name": role}),
        };
        let group = "rbac.authorization.k8s.io";
        json!({
            "kind": if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" }, "metadata": metadata,
            "subjects": [{"kind": "Group", "name": self.operators(), "apiGroup": group}],
            "roleRef": {"apiGroup": group, "kind": kind, "name": role},
        })
    }

    fn apply_rbac(&self, mut objects: Vec<Value>) -> Result<()> {
        for object in &mut objects {
            object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.control_plane.kubectl().apply(&list.to_string())?;
        Ok(())
    }

    /// The group of users that may be this world's operator.
    fn operators(&self) -> String {
        format!("{}:operators", self.name)
    }

    /// Writes `watches.yaml`: `Widget` and its chart, with the extra keys.
    pub fn write_watches(&self) -> Result<()> {
        let keys: Vec<&str> = self.watch_keys.iter().map(String::as_str).collect();
        self.write_watches_of(&[("Widget", &self.chart(), &keys)])
    }

    /// Writes `watches.yaml`: kinds of this world, each with its chart and further keys.
    pub fn write_watches_of(&self, watches: &[(&str, &Path, &[&str])]) -> Result<()> {
        let mut text = String::new();
        for (kind, chart, keys) in watches {
            let chart = chart.display();
            text += &format!(
                "- group: {}\n  version: v1\n  kind: {kind}\n  chart: {chart}\n",
                self.group()
            );
            for line in keys.iter().flat_map(|key| key.lines()) {
                text += &format!("  {line}\n");
            }
        }
        fs::write(self.watches_file(), text)?;
        Ok(())
    }

    pub fn watches_file(&self) -> PathBuf {
        self.dir.path().join("watches.yaml")
    }

    /// Starts the operator of this world on its watches file.
    pub fn start(&self) -> Result<Operator> {
        self.launch(&Launch::default())
    }

    /// The same, and waits until it has come to rest: what it asks from then on has a reason.
    pub fn start_and_settle(&self) -> Result<Operator> {
        let operator = self.start()?;
        operator.await_log("watching")?;
        self.await_quiet(&operator)?;
        Ok(operator)
    }

    pub fn launch(&self, launch: &Launch<'_>) -> Result<Operator> {
        if !self.watches_file().exists() {
            self.write_watches()?;
        }
        let user = format!("system:serviceaccount:{}:operator-{}", self.name, launch.replica);
        let kubeconfig = self.control_plane.kubeconfig_for(&user, &[&self.operators()])?;
        let arguments = [
            format!("--watches-file={}", self.watches_file().display()),
            format!("--operator-name={}", self.name),
            format!("--namespace={}", self.name),
        ];
        Operator::start(
            self.control_plane,
            self.dir.path(),
            &kubeconfig,
            &user,
            &arguments,
            launch,
        )
    }

    /// A custom resource of kind `Widget`.
    pub fn widget(&self, name: &str, spec: Value) -> Value {
        self.custom("Widget", name, spec)
    }

    /// A custom resource of one of this world's kinds.
    pub fn custom(&self, kind: &str, name: &str, spec: Value) -> Value {
        let mut metadata = json!({"name": name});
        if !self.cluster_scoped {
            metadata["namespace"] = self.name.as_str().into();
        }
        json!({"apiVersion": format!("{}/v1", self.group()), "kind": kind, "metadata": metadata, "spec": spec})
    }

    pub fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl.apply(&object.to_string()).map(drop)
    }

    /// Applies a widget and waits until it is ready.
    pub fn install(&self, name: &str, spec: Value) -> Result<Value> {
        self.apply(&self.widget(name, spec))?;
        self.await_ready(name)
    }

    /// Changes the spec of a widget by a merge patch.
    pub fn edit(&self, name: &str, spec: Value) -> Result<()> {
        self.kubectl
            .patch(&self.widgets(), name, &json!({"spec": spec}))
            .map(drop)
    }

    /// The same, and waits until it is ready again.
    pub fn update(&self, name: &str, spec: Value) -> Result<Value> {
        self.edit(name, spec)?;
        self.await_ready(name)
    }

    /// Deletes a widget and waits until it is gone.
    pub fn delete(&self, name: &str) -> Result<()> {
        self.kubectl
            .delete(&self.widgets(), name)
            .map(drop)
            .with_context(|| self.story(name))
    }

    /// The resource's full name for kubectl.
    pub fn widgets(&self) -> String {
        self.resource("Widget")
    }

    pub fn resource(&self, kind: &str) -> String {
        format!("{}s.{}", kind.to_lowercase(), self.group())
    }

    pub fn get(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        self.kubectl.get(kind, name)
    }

    /// Objects of some kinds in the world's namespace, by a label selector; all with `""`.
    pub fn list(&self, kinds: &str, selector: &str) -> Result<Vec<Value>> {
        self.kubectl.list(kinds, selector)
    }

    /// Changes an object by a merge patch.
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        self.kubectl.patch(kind, name, patch)
    }

    /// Sets annotations of a widget, or takes them off with `null`.
    pub fn annotate(&self, name: &str, annotations: Value) -> Result<()> {
        self.patch(
            &self.widgets(),
            name,
            &json!({"metadata": {"annotations": annotations}}),
        )
    }

    /// Changes the color of a ConfigMap by hand.
    pub fn paint(&self, name: &str, color: &str) -> Result<()> {
        self.patch("configmap", name, &json!({"data": {"color": color}}))
    }

    /// Waits until a ConfigMap has a color; gives it.
    pub fn await_color(&self, name: &str, color: &str) -> Result<Value> {
        self.await_object("configmap", name, &format!("is {color}"), |map| {
            map["data"]["color"] == color
        })
    }

    /// The output of a kubectl command.
    pub fn run<const N: usize>(&self, arguments: [&str; N]) -> Result<String> {
        self.kubectl.run(arguments)
    }

    /// An object that must be there.
    pub fn expect(&self, kind: &str, name: &str) -> Result<Value> {
        self.get(kind, name)?
            .with_context(|| format!("there is no {kind} {name}"))
    }

    /// The widget, when it is Ready at its current generation.
    pub fn await_ready(&self, name: &str) -> Result<Value> {
        self.await_condition(name, "Ready", "True")?;
        self.expect(&self.widgets(), name)
    }

    /// The message of the `Stalled` condition, when it is there for this reason at the current generation.
    pub fn await_stalled(&self, name: &str, reason: &str) -> Result<String> {
        let what = format!("widget {name} is Stalled: {reason}");
        let waited = eventually(&what, SOON, || {
            let stalled = self.await_condition(name, "Stalled", "True")?;
            ensure!(stalled["reason"] == reason, "{stalled}");
            Ok(Some(stalled["message"].as_str().unwrap_or_default().to_owned()))
        });
        waited.with_context(|| self.story(name))
    }

    /// Waits until a condition of a widget has a status at the current generation; gives the condition.
    pub fn await_condition(&self, name: &str, kind: &str, status: &str) -> Result<Value> {
        self.await_condition_of(&self.widgets(), name, kind, status)
    }

    pub fn await_condition_of(&self, resource: &str, name: &str, kind: &str, status: &str) -> Result<Value> {
        let what = format!("{resource} {name}: {kind}={status}");
        let waited = eventually(&what, SOON, || {
            let object = self.expect(resource, name)?;
            let generation = &object["metadata"]["generation"];
            match condition(&object, kind) {
                Some(found) if found["status"] == status && found["observedGeneration"] == *generation => {
                    Ok(Some(found))
                }
                found => bail!(
                    "generation {generation}, condition {found:?}, status {}",
                    object["status"]
                ),
            }
        });
        waited.with_context(|| self.story(name))
    }

    /// Waits until something about an object holds; gives the object.
    pub fn await_object(&self, kind: &str, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let waited = eventually(&format!("{kind} {name}: {what}"), PROMPT, || {
            let object = self.get(kind, name)?;
            match object {
                Some(object) if holds(&object) => Ok(Some(object)),
                object => bail!("it is {}", brief(object.as_ref())),
            }
        });
        waited.with_context(|| self.story(""))
    }

    pub fn await_gone(&self, kind: &str, name: &str) -> Result<()> {
        let waited = eventually(&format!("{kind} {name} is gone"), SOON, || {
            let object = self.get(kind, name)?;
            ensure!(object.is_none(), "it is {}", brief(object.as_ref()));
            Ok(Some(()))
        });
        waited.with_context(|| self.story(""))
    }

    /// Reasons and notes of the events about the world's custom resources of one name.
    pub fn events(&self, name: &str) -> Result<Vec<(String, String)>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.kubectl.list("events", "")?;
        let about =
            |event: &&Value| event["involvedObject"]["name"] == name && event["involvedObject"]["kind"] == "Widget";
        Ok(events
            .iter()
            .filter(about)
            .map(|event| (text(&event["reason"]), text(&event["message"])))
            .collect())
    }

    /// Waits for an event; gives its note.
    pub fn await_event(&self, name: &str, reason: &str) -> Result<String> {
        eventually(&format!("{name} has an event {reason}"), PROMPT, || {
            let events = self.events(name)?;
            let found = events
                .iter()
                .find(|(found, _)| found == reason)
                .map(|(_, note)| note.clone());
            Ok(Some(found.with_context(|| format!("there are {events:?}"))?))
        })
    }

    /// Objects of this operator in the world's namespace, by its label.
    pub fn labelled(&self, kinds: &str) -> Result<Vec<Value>> {
        self.kubectl
            .list(kinds, &format!("chartwright.dev/operator={}", self.name))
    }

    /// Where a later count of requests begins.
    pub fn mark(&self) -> Result<Start> {
        Ok(Start {
            mark: self.control_plane.audit().mark()?,
            at: Instant::now(),
        })
    }

    /// Everything that an operator asked of the API server.
    pub fn all_requests(&self, operator: &Operator, since: Start) -> Result<Requests> {
        // The server writes a request down when it has answered it.
        std::thread::sleep(Duration::from_millis(300));
        Ok(self.control_plane.audit().since(since.mark)?.by_user(&operator.user))
    }

    /// The same without leases, watches and, if another test changed what is served, without discovery.
    pub fn requests(&self, operator: &Operator, since: Start) -> Result<Requests> {
        let requests = self.all_requests(operator, since)?.without_idling();
        let changed = *SERVED_CHANGED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let echo = changed.is_some_and(|changed| changed + DISCOVERY_ECHO > since.at);
        let is_discovery = |request: &Request| request.verb == "get" && request.resource.is_empty();
        Ok(requests.filter(|request| !(echo && is_discovery(request))))
    }

    /// Waits until an operator has asked nothing for a second.
    pub fn await_quiet(&self, operator: &Operator) -> Result<()> {
        let deadline = Instant::now() + SOON;
        loop {
            let start = self.mark()?;
            std::thread::sleep(Duration::from_millis(700));
            let requests = self.requests(operator, start)?;
            if requests.is_empty() {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the operator never comes to rest:\n{requests}"
            );
        }
    }

    /// What a failed test wants to know: a status and the end of each log.
    pub fn story(&self, name: &str) -> String {
        let widget = if name.is_empty() {
            None
        } else {
            self.get(&self.widgets(), name).ok().flatten()
        };
        let status = widget.map(|widget| widget["status"].to_string()).unwrap_or_default();
        let logs = (0..9).filter_map(|n| fs::read_to_string(self.dir.path().join(format!("operator-{n}.log"))).ok());
        let tail = |log: String| {
            log.lines()
                .skip(log.lines().count().saturating_sub(25))
                .collect::<Vec<_>>()
                .join("\n")
        };
        format!(
            "status: {status}\nlog:\n{}",
            logs.map(tail).collect::<Vec<_>>().join("\n--\n")
        )
    }
}

/// Remembers that a CRD or an APIService comes or goes now.
pub fn served_changed() {
    *SERVED_CHANGED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Instant::now());
}

/// What an operator may do with a kind of members.
pub fn member_rule(group: &str, resource: &str) -> Value {
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

fn rules_of(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let role: Value = serde_yaml::from_str(&text)?;
    Ok(role["rules"].as_array().cloned().unwrap_or_default())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target).map(drop)?,
        }
    }
    Ok(())
}
