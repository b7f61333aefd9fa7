//! What a test needs: a namespace, a kind of its own, rights, a chart, and an operator process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::support::{ControlPlane, Kubectl, Mark, Request, Requests, eventually};
use crate::world::fields::{brief, condition, says, text};
use crate::world::operator::{Launch, Operator, UNELECTED};

pub mod fields;
mod grants;
pub mod helm_releases;
pub mod operator;

pub use grants::member_rule;

/// How long anything that is watched may take. Generous: the machine may be busy with other tests.
pub const SOON: Duration = Duration::from_secs(30);

/// How long the garbage collector may take: every 30 s it learns which kinds there are, and does nothing else meanwhile.
pub const COLLECTED: Duration = Duration::from_secs(75);

/// How long a watch may take to put something right. Any timer of the operator takes longer.
pub const PROMPT: Duration = Duration::from_secs(10);

/// Labels of a pod that never ends or becomes ready, and of one that fails.
pub const HANGS: &str = "chartwright.test/fails";
pub const CRASHES: &str = "chartwright.test/crashes";

/// Where a Deployment has the image of its first container.
pub const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// When a test last changed what the API server serves. Every operator then reads discovery anew, for some seconds.
static SERVED_CHANGED: Mutex<Option<Instant>> = Mutex::new(None);
const DISCOVERY_ECHO: Duration = Duration::from_secs(8);

/// The chart that the tests use, unless they bring their own.
pub fn widget_chart() -> PathBuf {
    fixture("chart")
}

/// The chart whose values are hooks, and the steps of plans.
pub fn staged_chart() -> PathBuf {
    fixture("staged")
}

/// A list of objects, or of cases, of tests/fixtures/integration/objects.
pub fn objects(name: &str) -> Result<Vec<Value>> {
    let path = fixture("objects").join(format!("{name}.yaml"));
    Ok(serde_yaml::from_str(&fs::read_to_string(path)?)?)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/integration")).join(name)
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

impl Setup<'_> {
    pub const USUAL: Self = Setup {
        cluster_scoped: false,
        crd: true,
        only_in: &[],
        alone: false,
        without: &[],
    };
    /// Without rights on some resources.
    pub fn without<'a>(without: &'a [&'a str]) -> Setup<'a> {
        Setup {
            without,
            ..Setup::USUAL
        }
    }

    /// With rights in some namespaces alone.
    pub fn only_in<'a>(only_in: &'a [&'a str]) -> Setup<'a> {
        Setup {
            only_in,
            ..Setup::USUAL
        }
    }

    pub const CLUSTER_SCOPED: Self = Setup {
        cluster_scoped: true,
        ..Self::USUAL
    };
    pub const NO_CRD: Self = Setup {
        crd: false,
        ..Self::USUAL
    };
    pub const ALONE: Self = Setup {
        alone: true,
        ..Self::USUAL
    };
}

impl World {
    /// A namespace, a namespaced kind `Widget` in the group `<name>.test`, and an operator's account in it.
    pub fn new(name: &str) -> Result<Self> {
        Self::with(name, Setup::USUAL)
    }

    /// The same with hooks and plans, further keys of the watch, and members of these groups and resources.
    pub fn staged(name: &str, keys: &[&str], members: &[(&str, &str)]) -> Result<Self> {
        let world = Self::new(name)?;
        world.write_watches_of(&[("Widget", &staged_chart(), keys)])?;
        let members = [("batch", "jobs"), ("", "secrets")].iter().chain(members);
        let rules: Vec<Value> = members.map(|(group, kind)| member_rule(group, kind)).collect();
        world.grant("staged", &rules)?;
        Ok(world)
    }

    /// The same with another chart: a folder of tests/fixtures/integration.
    pub fn of_chart(name: &str, chart: &str) -> Result<Self> {
        Self::new(name)?.use_chart(chart)
    }

    /// Has another chart in the place of the usual one.
    pub fn use_chart(self, chart: &str) -> Result<Self> {
        fs::remove_dir_all(self.chart())?;
        copy_folder(&fixture(chart), &self.chart())?;
        Ok(self)
    }

    /// Another chart beside it: a folder of tests/fixtures/integration.
    pub fn second_chart(&self, chart: &str) -> Result<PathBuf> {
        let folder = self.dir.path().join(chart);
        copy_folder(&fixture(chart), &folder)?;
        Ok(folder)
    }

    /// The same with the rights of [`member_rule`] on another kind of members.
    pub fn granted(self, group: &str, resource: &str) -> Result<Self> {
        self.grant(resource, &[member_rule(group, resource)])?;
        Ok(self)
    }

    /// The same with a kind `Gadget` of this world's group, for members.
    pub fn with_gadgets(self) -> Result<Self> {
        self.install_crd("Gadget")?;
        let group = self.group();
        self.granted(&group, "gadgets")
    }

    /// Adds a template to the chart, or has another content for it.
    pub fn write_template(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.chart().join("templates").join(file), text)?;
        Ok(())
    }

    /// Adds a template of tests/fixtures/integration/templates to the chart.
    pub fn add_template(&self, file: &str) -> Result<()> {
        self.write_template(file, &fs::read_to_string(fixture("templates").join(file))?)
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
        let about = format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n");
        fs::write(folder.join("Chart.yaml"), about)?;
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
        self.install_crd_with(kind, Some(any_fields()))
    }

    /// The same with this schema of the status; `None`: without the subresource.
    pub fn install_crd_with(&self, kind: &str, status: Option<Value>) -> Result<()> {
        let mut crd = crd(&self.group(), kind);
        if self.cluster_scoped {
            crd["spec"]["scope"] = "Cluster".into();
        }
        let version = &mut crd["spec"]["versions"][0];
        if status.is_some() {
            version["subresources"] = json!({"status": {}});
        }
        let status = status.unwrap_or_else(|| json!({"type": "object"}));
        version["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
        self.serve(&crd)
    }

    /// Applies a CustomResourceDefinition and waits until its kind is served.
    pub fn serve(&self, crd: &Value) -> Result<()> {
        served_changed();
        self.apply(crd)?;
        self.kubectl
            .wait("Established", "crd", text(&crd["metadata"]["name"]), SOON)?;
        served_changed();
        Ok(())
    }

    /// What the program says for an admin, and whether it succeeded.
    pub fn chartwright(&self, arguments: &[&str]) -> Result<(ExitStatus, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
        command
            .args(arguments)
            .env("KUBECONFIG", self.control_plane.kubeconfig());
        let Output { status, stdout, stderr } = command.output()?;
        Ok((status, String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned()))
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
            let (group, chart) = (self.group(), chart.display());
            text += &format!("- group: {group}\n  version: v1\n  kind: {kind}\n  chart: {chart}\n");
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
        self.launch(&UNELECTED)
    }

    /// The same, and waits until it has come to rest: what it asks from then on has a reason.
    pub fn start_and_settle(&self) -> Result<Operator> {
        let operator = self.start()?;
        operator.await_log("watching")?;
        self.await_quiet(&operator)?;
        Ok(operator)
    }

    /// Ends an operator in order, and starts the next.
    pub fn restart(&self, operator: Operator) -> Result<Operator> {
        ensure!(operator.terminate()?.success());
        self.start()
    }

    /// Kills an operator, and starts the next.
    pub fn replace(&self, operator: Operator) -> Result<Operator> {
        operator.kill()?;
        self.start()
    }

    /// The same, and waits until that one has come to rest.
    pub fn replace_and_settle(&self, operator: Operator) -> Result<Operator> {
        operator.kill()?;
        self.start_and_settle()
    }

    pub fn launch(&self, launch: &Launch<'_>) -> Result<Operator> {
        if !self.watches_file().exists() {
            self.write_watches()?;
        }
        let user = format!("system:serviceaccount:{}:operator-{}", self.name, launch.replica);
        let kubeconfig = self.control_plane.kubeconfig_for(&user, &[&self.operators()])?;
        self.launch_as(&user, &kubeconfig, launch)
    }

    /// The same with the credentials in a kubeconfig.
    pub fn launch_as(&self, user: &str, kubeconfig: &Path, launch: &Launch<'_>) -> Result<Operator> {
        let watches = format!("--watches-file={}", self.watches_file().display());
        let (name, namespace) = (
            format!("--operator-name={}", self.name),
            format!("--namespace={}", self.name),
        );
        let arguments = [watches, name, namespace];
        Operator::start(
            self.control_plane,
            self.dir.path(),
            kubeconfig,
            user,
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
        self.kubectl.apply(&object.to_string())
    }

    pub fn apply_widget(&self, name: &str, spec: Value) -> Result<()> {
        self.apply(&self.widget(name, spec))
    }

    /// Applies a widget and waits until it is ready.
    pub fn install(&self, name: &str, spec: Value) -> Result<Value> {
        self.apply_widget(name, spec)?;
        self.await_ready(name)
    }

    /// Applies widgets, each with its spec, and waits until all are ready.
    pub fn install_all<N: AsRef<str>>(&self, names: &[N], spec: impl Fn(&str) -> Value) -> Result<()> {
        let items: Vec<Value> = names
            .iter()
            .map(|name| self.widget(name.as_ref(), spec(name.as_ref())))
            .collect();
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
        names
            .iter()
            .try_for_each(|name| self.await_ready(name.as_ref()).map(drop))
    }

    /// Changes the spec of a widget by a merge patch.
    pub fn edit(&self, name: &str, spec: Value) -> Result<()> {
        self.patch_widget(name, &json!({"spec": spec}))
    }

    /// The same, and waits until it is ready again.
    pub fn update(&self, name: &str, spec: Value) -> Result<Value> {
        self.edit(name, spec)?;
        self.await_ready(name)
    }

    /// Deletes a widget and waits until it is gone.
    pub fn delete(&self, name: &str) -> Result<()> {
        let deleted = self.kubectl.delete(&self.widgets(), name);
        deleted.with_context(|| self.story(name))
    }

    /// Deletes a widget that must be there, and doesn't wait.
    pub fn begin_delete(&self, name: &str) -> Result<()> {
        self.kubectl.begin_delete(&self.widgets(), name)
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
        self.patch_widget(name, &json!({"metadata": {"annotations": annotations}}))
    }

    /// Changes an object by a patch of another type: `json` or `strategic`.
    pub fn patch_by(&self, patch_type: &str, kind: &str, name: &str, patch: &Value) -> Result<()> {
        let (by, patch) = (format!("--type={patch_type}"), patch.to_string());
        self.run(["patch", kind, name, &by, "-p", &patch]).map(drop)
    }

    /// Changes a widget by a merge patch.
    pub fn patch_widget(&self, name: &str, patch: &Value) -> Result<()> {
        self.patch(&self.widgets(), name, patch)
    }

    /// Changes the status of a widget by a merge patch.
    pub fn patch_status(&self, name: &str, patch: &Value) -> Result<()> {
        self.kubectl.patch_status(&self.widgets(), name, patch)
    }

    /// Asks for a widget to be forced, and waits until it was.
    pub fn force(&self, name: &str, token: &str) -> Result<()> {
        self.annotate(name, json!({"chartwright.dev/force-at": token}))?;
        self.await_field(&self.widgets(), name, "/status/lastHandledForceAt", token)
            .map(drop)
    }

    /// Changes the color of a ConfigMap by hand.
    pub fn paint(&self, name: &str, color: &str) -> Result<()> {
        self.patch("configmap", name, &json!({"data": {"color": color}}))
    }

    /// Waits until a ConfigMap has a color; gives it.
    pub fn await_color(&self, name: &str, color: &str) -> Result<Value> {
        self.await_field("configmap", name, "/data/color", color)
    }

    /// The output of a kubectl command.
    pub fn run<const N: usize>(&self, arguments: [&str; N]) -> Result<String> {
        self.kubectl.run(arguments)
    }

    /// An object that must be there.
    pub fn expect(&self, kind: &str, name: &str) -> Result<Value> {
        let found = self.get(kind, name)?;
        found.with_context(|| format!("there is no {kind} {name}"))
    }

    /// A widget that must be there.
    pub fn live(&self, name: &str) -> Result<Value> {
        self.expect(&self.widgets(), name)
    }

    /// The widget, when it is Ready at its current generation.
    pub fn await_ready(&self, name: &str) -> Result<Value> {
        self.await_condition(name, "Ready", "True")?;
        self.live(name)
    }

    /// Several objects that must not be there.
    pub fn absent<const N: usize>(&self, kind: &str, names: [&str; N]) -> Result<()> {
        for name in names {
            let object = self.get(kind, name)?;
            ensure!(object.is_none(), "{kind} {name} is {}", brief(object.as_ref()));
        }
        Ok(())
    }

    /// The message of the `Stalled` condition, when it is there for this reason at the current generation. It must have
    /// all of these parts.
    pub fn await_stalled(&self, name: &str, reason: &str, parts: &[&str]) -> Result<String> {
        let what = format!("widget {name} is Stalled: {reason}");
        let waited = eventually(&what, SOON, || {
            let stalled = self.await_condition(name, "Stalled", "True")?;
            ensure!(stalled["reason"] == reason, "{stalled}");
            Ok(Some(text(&stalled["message"]).to_owned()))
        });
        let message = waited.with_context(|| self.story(name))?;
        says(&message, parts)?;
        Ok(message)
    }

    /// Waits until `Ready` is false for a reason and its message says all of this; gives the condition.
    pub fn await_unready(&self, name: &str, reason: &str, parts: &[&str]) -> Result<Value> {
        let waited = eventually(&format!("{name} is not Ready: {reason} {parts:?}"), SOON, || {
            let ready = self.await_condition(name, "Ready", "False")?;
            ensure!(ready["reason"] == reason, "{ready}");
            says(text(&ready["message"]), parts)?;
            Ok(Some(ready))
        });
        waited.with_context(|| self.story(name))
    }

    /// Waits until no prune of a widget is held; gives the widget.
    pub fn await_released(&self, name: &str) -> Result<Value> {
        eventually("nothing is held", SOON, || {
            let widget = self.live(name)?;
            let held = condition(&widget, "PruneHeld");
            ensure!(held.is_null(), "{held}");
            Ok(Some(widget))
        })
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
            let (found, told) = (condition(&object, kind), &object["status"]);
            let holds = found["status"] == status && found["observedGeneration"] == *generation;
            ensure!(holds, "generation {generation}, condition {found}, status {told}");
            Ok(Some(found))
        });
        waited.with_context(|| self.story(name))
    }

    /// Waits until something about an object holds; gives the object.
    pub fn await_object(&self, kind: &str, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let waited = eventually(&format!("{kind} {name}: {what}"), PROMPT, || {
            match self.get(kind, name)? {
                Some(object) if holds(&object) => Ok(Some(object)),
                object => bail!("it is {}", brief(object.as_ref())),
            }
        });
        waited.with_context(|| self.story(""))
    }

    /// Waits until an object is there; gives it.
    pub fn await_there(&self, kind: &str, name: &str) -> Result<Value> {
        self.await_object(kind, name, "is there", |_| true)
    }

    /// Waits until a field of an object, by its JSON pointer, has a value; gives the object.
    pub fn await_field(&self, kind: &str, name: &str, pointer: &str, value: impl Into<Value>) -> Result<Value> {
        let value = Some(value.into());
        let is_it = |object: &Value| object.pointer(pointer) == value.as_ref();
        self.await_object(kind, name, &format!("{pointer} is {value:?}"), is_it)
    }

    /// Has an object that is deleted stay on its way out.
    pub fn hold(&self, kind: &str, name: &str) -> Result<()> {
        self.set_finalizers(kind, name, json!(["test.example/hold"]))
    }

    /// Takes every finalizer off an object.
    pub fn let_go(&self, kind: &str, name: &str) -> Result<()> {
        self.set_finalizers(kind, name, Value::Null)
    }

    fn set_finalizers(&self, kind: &str, name: &str, finalizers: Value) -> Result<()> {
        self.patch(kind, name, &json!({"metadata": {"finalizers": finalizers}}))
    }

    /// Has the pods of a Job end in a phase, as a kubelet tells it.
    pub fn end_pods_of(&self, job: &str, phase: &str) -> Result<()> {
        let pods = self.list("pods", &format!("batch.kubernetes.io/job-name={job}"))?;
        ensure!(!pods.is_empty(), "{job} has no pod");
        let ended = json!({"status": {"phase": phase}});
        pods.iter()
            .try_for_each(|pod| self.kubectl.patch_status("pod", text(&pod["metadata"]["name"]), &ended))
    }

    /// Suspends a widget and waits until its status says so.
    pub fn suspend(&self, name: &str) -> Result<()> {
        self.annotate(name, json!({"chartwright.dev/suspend": "true"}))?;
        self.await_condition(name, "Suspended", "True").map(drop)
    }

    /// Waits until a widget is gone.
    pub fn await_deleted(&self, name: &str) -> Result<()> {
        self.await_gone(&self.widgets(), name)
    }

    pub fn await_gone(&self, kind: &str, name: &str) -> Result<()> {
        self.await_gone_within(SOON, kind, name)
    }

    pub fn await_gone_within(&self, patience: Duration, kind: &str, name: &str) -> Result<()> {
        let waited = eventually(&format!("{kind} {name} is gone"), patience, || {
            let object = self.get(kind, name)?;
            ensure!(object.is_none(), "it is {}", brief(object.as_ref()));
            Ok(Some(()))
        });
        waited.with_context(|| self.story(""))
    }

    /// Reasons and notes of the events about the world's custom resources of one name.
    pub fn events(&self, name: &str) -> Result<Vec<(String, String)>> {
        let events = self.list("events", "")?;
        let is_about = |about: &Value| about["name"] == name && about["kind"] == "Widget";
        let events = events.iter().filter(|event| is_about(&event["involvedObject"]));
        let told = |event: &Value| (text(&event["reason"]).to_owned(), text(&event["message"]).to_owned());
        Ok(events.map(told).collect())
    }

    /// Waits for an event whose note has all of these parts; gives the note.
    pub fn await_event(&self, name: &str, reason: &str, parts: &[&str]) -> Result<String> {
        eventually(&format!("{name} has an event {reason} {parts:?}"), PROMPT, || {
            let events = self.events(name)?;
            let is_it = |event: &&(String, String)| event.0 == reason && says(&event.1, parts).is_ok();
            let found = events.iter().find(is_it).map(|(_, note)| note.clone());
            Ok(Some(found.with_context(|| format!("there are {events:?}"))?))
        })
    }

    /// Objects of this operator in the world's namespace, by its label.
    pub fn labelled(&self, kinds: &str) -> Result<Vec<Value>> {
        self.list(kinds, &format!("chartwright.dev/operator={}", self.name))
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
            ensure!(Instant::now() < deadline, "{requests}");
        }
    }

    /// What an operator asks until it comes to rest.
    pub fn requests_until_quiet(&self, operator: &Operator, since: Start) -> Result<Requests> {
        self.await_quiet(operator)?;
        self.requests(operator, since)
    }

    /// For so long, an operator asks for nothing.
    pub fn asks_nothing(&self, operator: &Operator, seconds: f64) -> Result<()> {
        let start = self.mark()?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
        self.requests(operator, start)?.none()
    }

    /// What a failed test wants to know: a status and the end of each log.
    pub fn story(&self, name: &str) -> String {
        let widget = self.get(&self.widgets(), name).ok().flatten().unwrap_or_default();
        let mut story = format!("status: {}\n", widget["status"]);
        for number in 0..9 {
            let Ok(log) = fs::read_to_string(self.dir.path().join(format!("operator-{number}.log"))) else {
                break;
            };
            let lines: Vec<&str> = log.lines().collect();
            story += &format!("log:\n{}\n", lines[lines.len().saturating_sub(25)..].join("\n"));
        }
        story
    }
}

/// Remembers that a CRD or an APIService comes or goes now.
pub fn served_changed() {
    *SERVED_CHANGED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Instant::now());
}

/// A ConfigMap.
pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A ConfigMap with an annotation.
pub fn annotated_map(name: &str, key: &str, value: &str) -> Value {
    let metadata = json!({"name": name, "annotations": {key: value}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// The schema of an object with any fields.
pub fn any_fields() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A CustomResourceDefinition of namespaced objects with any fields in spec and status.
pub fn crd(group: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let properties = json!({"spec": any_fields(), "status": any_fields()});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    })
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
